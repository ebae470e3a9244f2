"""What others say: read from files, kept once, moderated, and hidden under embargo."""

import json
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from dayzero.app import Plane
from dayzero.cli import claim, compat
from dayzero.domain.access import Scope
from dayzero.errors import BadInputError
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers

pytestmark = pytest.mark.postgres
CSV = "\ufeffmodel,platform,says,devices,observed_on,throughput_tokens_per_s\n"
CSV += "org/a,h100,works,8,2026-05-01,812.5\norg/b,h100,NO,,,\n"


def run(plane: Plane, group: object, *arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(group, [*arguments, "--json"], obj=lambda settings: nullcontext(plane))  # type: ignore[arg-type]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    parsed: dict[str, object] = json.loads(result.stdout)
    return parsed


def test_results_of_before_are_declared_and_kept_once(plane: Plane, tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    table.write_text(CSV)
    assert run(plane, compat.app, "import", str(table))["new"] == 2
    assert run(plane, compat.app, "import", str(table))["new"] == 0
    (made,) = run(plane, claim.app, "ls", "--model", "org/a")["reports"]  # type: ignore[misc]
    assert (made["grade"], made["kind"], made["says"], made["devices"]) == ("declared", "declared", "works", 8)
    assert made["figures"] == {"throughput_tokens_per_s": 812.5} and made["source"] == "results.csv"
    assert plane.compatibility.current() == (), "no entry comes of it"
    document = tmp_path / "more.json"
    document.write_text(json.dumps({"results": [{"model": "org/c", "platform": "cpu", "says": True, "source": "there"}]}))
    assert run(plane, compat.app, "import", str(document))["new"] == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "model,platform,says\norg/a,cpu,perhaps\n,cpu,works\n", "row 1: says 'perhaps'.*row 2: model is missing"),
        ("a.csv", "model,platform,says,x_s\norg/a,cpu,works,fast\n", "x_s holds 'fast'"),
        ("a.csv", "model,platform,says\norg/a,cpu,works,1,2\n", "more cells"),
        ("a.csv", "model,platform,says,devices\norg/a,cpu,works,-1\n", "devices '-1'"),
        ("a.csv", "", "no rows"),
        ("a.json", "{", "no JSON"),
        ("a.json", "[1]", "neither a list"),
        ("a.json", '[{"model": "m", "platform": "p", "says": "works", "ttft_s": NaN}]', "no number"),
        ("a.json", '[{"model": ["m"], "platform": "p", "says": "works"}]', "model is no text"),
    ],
)
def test_wrong_files_are_refused_as_a_whole(plane: Plane, tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInputError, match=said):
        run(plane, compat.app, "import", str(tmp_path / name))
    assert run(plane, claim.app, "ls", "--all")["reports"] == []


def test_field_reports_wait_for_somebody_and_obey_embargoes(plane: Plane) -> None:
    held = {"Authorization": f"Bearer {plane.access.issue('shop', Scope.WRITE, 3600)[0]}"}
    told = {"model": "org/a", "platform": "cpu", "says": "works", "source": "shop", "figures": {"ttft_s": 0.2}}
    with TestClient(create_app(plane, all_routers(plane)), raise_server_exceptions=False) as client:
        assert client.post("/v1/reports", json=told).status_code == 401
        assert client.post("/v1/reports", json={**told, "says": "maybe"}, headers=held).status_code == 422
        assert client.post("/v1/reports", json=told, headers=held).json()["state"] == "pending"
        assert client.get("/v1/reports").json()["reports"] == []
        (waiting,) = run(plane, claim.app, "ls", "--all")["reports"]  # type: ignore[misc]
        run(plane, claim.app, "accept", waiting["id"][:10])
        (shown,) = client.get("/v1/reports", params={"model": "org/a"}).json()["reports"]
        assert (shown["kind"], shown["grade"], shown["figures"]) == ("field", "declared", {"ttft_s": 0.2})
        plane.embargoes.place("org/a", None, plane.clock.now() + timedelta(hours=1), [], "why")
        assert client.get("/v1/reports").json()["reports"] == []
        run(plane, claim.app, "reject", waiting["id"][:10], "--why", "another model")
    assert [one.action for one in plane.access.trail(3)] == ["report.rejected", "report.accepted", "report.add"]
