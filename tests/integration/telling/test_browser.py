"""The pages in a real browser: the matrix is searched and filtered, runs move by themselves, axe-core finds nothing serious.

Axe runs where DAYZERO_AXE names its axe.min.js (npm install axe-core).
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from chromium import BROWSER, Tab, browsing
from dayzero.app import Plane
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
PATHS = ("/", "/platforms", "/platforms/cpu", "/releases", "/releases?show=ignored", "/runs", "/session", "/method", "/nowhere")


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


@pytest.mark.skipif("DAYZERO_AXE" not in os.environ, reason="DAYZERO_AXE names no axe.min.js")
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious(door: str, tab: Tab, plane: Plane, colours: str) -> None:
    axe = Path(os.environ["DAYZERO_AXE"]).read_text(encoding="utf-8")
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
    row = plane.reading.entries(limit=1).rows[0]
    run = plane.reading.runs(limit=1).runs[0]
    found = []
    for path in (*PATHS, f"/models/{row['model']}", f"/runs/{run.id}", f"/compat/{row['entry_id']}"):
        tab.open(door + path)
        tab.evaluate(axe + "; true")
        violations = tab.evaluate("axe.run().then(result => result.violations.map(v => [v.id, v.impact, v.nodes[0].html]))")
        found += [(path, *one) for one in violations if one[1] in ("serious", "critical")]
    assert found == []
