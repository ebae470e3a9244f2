"""The pages in a real browser: the matrix is searched and filtered, runs move by themselves, axe-core finds nothing serious."""

import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from chromium import BROWSER, Tab, browsing
from dayzero.app import Plane
from dayzero.domain.access import Scope
from dayzero.domain.adaptation import AdaptationState
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from seeding import Seeding
from store_nouns import release

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here"),
    pytest.mark.timeout(600),
]
SEEDING = Seeding(models=6, platforms=6, entries=80)
PATHS = (
    "/", "/?filter=nope", "/platforms", "/platforms/cpu", "/releases", "/releases?show=ignored", "/runs", "/queue", "/clock",
    "/clock?platform=cpu", "/failures", "/subscribe", "/session", "/method", "/nowhere",
)  # fmt: skip


def serious(tab: Tab) -> list[list[Any]]:
    """Serious and critical findings of axe-core on the page that is open: rule, impact, and the first piece of HTML."""
    tab.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8") + "; true")
    found = tab.evaluate("axe.run().then(result => result.violations.map(v => [v.id, v.impact, v.nodes[0].html]))")
    return [one for one in found if one[1] in ("serious", "critical")]


@pytest.fixture
def door(plane: Plane) -> Iterator[str]:
    config = uvicorn.Config(create_app(plane, all_routers(plane)), port=0, log_level="error", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    server.force_exit = True
    thread.join(timeout=20)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browsing(tmp_path / "browser") as opened:
        yield opened


def test_the_matrix_is_searched_filtered_and_opened(door: str, tab: Tab) -> None:
    tab.open(door)
    assert tab.evaluate("document.querySelectorAll('table.matrix tbody tr').length") == 6
    tab.evaluate("document.querySelector('input[name=search]').value = 'heron'; document.querySelector('form').submit()")
    tab.until("location.search.includes('search=heron') && document.readyState === 'complete'")
    assert tab.evaluate("document.querySelectorAll('table.matrix tbody tr').length") == 1
    tab.evaluate("document.querySelector('table.matrix td a').click()")
    tab.until("location.pathname.startsWith('/compat/') && document.readyState === 'complete'")
    assert "heron" in tab.evaluate("document.title.toLowerCase()")
    tab.open(f"{door}/?filter=nope")
    assert "there is no field" in tab.evaluate("document.querySelector('[role=alert]').textContent")


def test_runs_move_by_themselves(door: str, tab: Tab, plane: Plane) -> None:
    run = plane.watchbook.record_release(release(), ["cpu"]).adaptations[0]
    tab.open(f"{door}/runs")
    state = f"document.querySelector('tr[data-run=\"{run}\"] .status').textContent"
    tab.until("document.getElementById('live').textContent.startsWith('Live')")
    assert tab.evaluate(state) == "requested"
    lease = plane.ledger.claim(run, 1, "tester")
    tab.until(f"{state} === 'running'")
    plane.catalog.finish(lease, AdaptationState.FAILED, "the disk is full", None)
    tab.until(f"{state} === 'failed'")
    assert "the disk is full" in tab.evaluate(f"document.querySelector('tr[data-run=\"{run}\"]').textContent")
    tab.ask("Page.navigate", url="about:blank")


def signed_in(door: str, tab: Tab, plane: Plane) -> None:
    """Give a token with scope write on the page for it."""
    token, _ = plane.access.issue("Ada", Scope.WRITE, 3600)
    tab.open(f"{door}/session")
    tab.evaluate(f"document.querySelector('input[name=token]').value = '{token}'; document.querySelector('main form').submit()")
    tab.until("document.readyState === 'complete' && document.querySelector('main').textContent.includes('Ada')")


def test_a_subscription_is_made_and_removed(door: str, tab: Tab, plane: Plane) -> None:
    tab.open(f"{door}/subscribe")
    assert "takes a token" in tab.evaluate("document.querySelector('main').textContent")
    signed_in(door, tab, plane)
    tab.open(f"{door}/subscribe?filter=platform%20%3D%20%22cpu%22")
    assert tab.evaluate("document.getElementById('filter').value") == 'platform = "cpu"'
    asked = "document.querySelector('form[action=\"/subscribe\"]')"
    for target, told in (("https://10.0.0.1/hook", "main [role=alert]"), ("https://hook.invalid/", "main section.next")):
        tab.evaluate(f"document.getElementById('target').value = '{target}'; {asked}.submit()")
        tab.until(f"document.readyState === 'complete' && document.querySelector('{told}') !== null")
        assert serious(tab) == []
    tab.open(f"{door}/subscribe")
    rows = "document.querySelectorAll('form[action$=\"/remove\"]').length"
    assert tab.evaluate(rows) == 1
    tab.evaluate("document.querySelector('form[action$=\"/remove\"]').submit()")
    tab.until(f"document.readyState === 'complete' && {rows} === 0")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious(door: str, tab: Tab, plane: Plane, colours: str) -> None:
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
    row, other = (plane.reading.entries(limit=2)).rows
    run = plane.reading.runs(limit=1).runs[0]
    entry = f"/compat/{row['entry_id']}"
    signed_in(door, tab, plane)
    found = []
    for path in (*PATHS, f"/models/{row['model']}", f"/runs/{run.id}", entry, f"{entry}/diff/{other['entry_id']}"):
        tab.open(door + path)
        found += [(path, *one) for one in serious(tab)]
    assert found == []
