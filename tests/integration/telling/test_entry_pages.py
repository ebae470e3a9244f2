"""The page of an entry, what two entries differ in, evidence and method, on a real store; and the same by command."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from dayzero.app import Plane
from dayzero.cli import report as command
from dayzero.codec import dump
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.observations import LayerError, LayerErrors, TensorError
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.verdict import Measurement, Verdict
from dayzero.errors import NotFoundError
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.entries.required import METHODS
from dayzero.steps.publishing import archive
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from report_scenes import HOSTILE, checked, failing_entry
from store_nouns import release

pytestmark = pytest.mark.postgres

OLD, NEW = Stack("cpu", {"torch": "2.9.0"}), Stack("cpu", {"torch": "2.10.0"})


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    door = create_app(plane, all_routers(plane, run_url=lambda adaptation: f"http://prefect.test/runs/{adaptation.id}"))
    with TestClient(door, raise_server_exceptions=False) as opened:
        yield opened


def errors(*own: float) -> bytes:
    def one(value: float) -> TensorError:
        return TensorError(64, value, value, 0.9999)

    layers = tuple(
        LayerError(
            index, f"layers.{index}", one(value), one(0.004), one(value), one(0.004), 1.0, one(value), one(0.004), False, 64
        )
        for index, value in enumerate(own)
    )
    return dump(LayerErrors("bfloat16", "float32", "compiled", "eager", 64, "text", layers))


def finished(plane: Plane, stack: Stack, own: float, verdict: Verdict, made: CompatibilityEntry | None = None,
             model: str = "org/model") -> str:  # fmt: skip
    """An adaptation that ended with an entry in that stack; the id of the entry."""
    manifest = OperatorManifest("cpu", "torch", "1", ())
    published = release(repo_id=model, weights=f"{own}{stack.fingerprint}", revision=f"r{own}{stack.fingerprint[:6]}")
    recorded = plane.watchbook.record_release(published, ["cpu"])
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    plane.ledger.put_manifest(manifest, stack)
    evidence = plane.ledger.put_artifact(errors(0.004, own), media_type="application/json", name="layers.json", lease=lease)
    base = made or failing_entry(model)
    checks = (checked("layers.three_way", verdict, evidence=(evidence,)), *base.checks[1:])
    key = replace(base.key, model=model, content_id=published.content_id, stack_fingerprint=stack.fingerprint)
    plane.catalog.finish(lease, AdaptationState.DONE, "done", replace(base, key=key, checks=checks))
    rows = plane.compatibility.history(model)
    return str(next(row["entry_id"] for row in rows if row["adaptation_id"] == lease.adaptation_id))


def test_an_entry_shows_its_layers_with_a_strict_policy(plane: Plane, client: TestClient) -> None:
    entry_id = finished(plane, OLD, 0.3, Verdict.FAIL)
    page = client.get(f"/compat/{entry_id[:12]}")
    assert page.status_code == 200 and "layer 1, layers.1" in page.text and "torch 2.9.0" in page.text
    policy = page.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy and "unsafe-inline" not in policy
    assert not re.search(r'\sstyle="', page.text) and "<script" not in page.text
    assert f'href="/compat/{entry_id}/evidence/' in page.text and f'href="/compat/{entry_id}/run"' in page.text
    sha256 = re.findall(r"/evidence/([0-9a-f]{64})", page.text)[0]
    evidence = client.get(f"/compat/{entry_id}/evidence/{sha256}")
    assert evidence.json()["native_dtype"] == "bfloat16" and "sandbox" in evidence.headers["content-security-policy"]
    assert client.get(f"/compat/{entry_id}/evidence/{'0' * 64}").status_code == 404
    moved = client.get(f"/compat/{entry_id}/run", follow_redirects=False)
    assert moved.status_code == 302 and moved.headers["location"].startswith("http://prefect.test/runs/")
    assert client.get(f"/v1/compat/{entry_id}/report").json()["schema"] == "dayzero.report/1"


def test_two_entries_and_what_they_differ_in(plane: Plane, client: TestClient) -> None:
    first = finished(plane, OLD, 0.3, Verdict.FAIL)
    second = finished(plane, NEW, 0.005, Verdict.PASS)
    assert f"/compat/{first}/diff/{second}" in client.get(f"/compat/{second}").text
    page = client.get(f"/compat/{first}/diff/{second}")
    for words in ("2.9.0", "2.10.0", "changed", "no longer", "1 of 2 layers"):
        assert words in page.text
    told = client.get(f"/v1/compat/{first}/diff/{second}").json()
    assert [one["check"] for one in told["checks"] if one["before"] != one["after"]] == ["layers.three_way"]
    run = CliRunner().invoke(
        command.app, ["diff", first[:10], second[:10], "--json"], obj=lambda settings: nullcontext(plane)
    )  # fmt: skip
    assert json.loads(run.stdout) == told
    assert client.get(f"/compat/{first}/diff/{'0' * 12}").status_code == 404
    assert client.get("/compat/zz/diff/<script>").status_code == 404


def test_a_report_by_the_id_of_an_entry_or_of_an_adaptation(plane: Plane, tmp_path: Path) -> None:
    entry_id = finished(plane, OLD, 0.3, Verdict.FAIL)
    (adaptation,) = plane.catalog.adaptations()
    out = tmp_path / "page.html"

    def told(*arguments: str) -> dict[str, object]:
        run = CliRunner().invoke(command.app, [*arguments, "--json"], obj=lambda settings: nullcontext(plane))
        assert run.exit_code == 0, run.exception
        found: dict[str, object] = json.loads(run.stdout)
        return found

    assert told(entry_id[:10], "--out", str(out)) == told(adaptation.id[:13])
    assert told(entry_id)["entry_id"] == entry_id and "Layer by layer" in out.read_text()
    missing = CliRunner().invoke(command.app, ["zzz"], obj=lambda settings: nullcontext(plane))
    assert isinstance(missing.exception, NotFoundError)


def test_a_run_that_goes_on_has_a_report_of_what_it_found(plane: Plane) -> None:
    recorded = plane.watchbook.record_release(release(), ["cpu"])
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    plane.ledger.put_check(checked("operators.float64"), lease)
    run = CliRunner().invoke(
        command.app, [lease.adaptation_id, "--json"], obj=lambda settings: nullcontext(plane)
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert [one["check"] for one in found["entry"]["checks"]] == ["operators.float64"] and found["entry_id"] is None


def test_no_name_breaks_the_pages(plane: Plane, client: TestClient) -> None:
    text = HOSTILE.replace("\x1b", "")[:400]
    hostile = replace(failing_entry(text), measurements=(Measurement("ttft", 1.0, "s", {"path": text}),))
    first = finished(plane, OLD, 0.3, Verdict.FAIL, hostile, "org/hostile")
    second = finished(plane, NEW, 0.3, Verdict.FAIL, hostile, "org/hostile")
    for path in (f"/compat/{first}", f"/compat/{first}/diff/{second}"):
        page = client.get(path).text
        assert "<script" not in page and "\u202e" not in page and "&lt;script&gt;" in page


def test_evidence_that_cannot_be_read_is_said(plane: Plane, client: TestClient) -> None:
    made = failing_entry("org/model")
    entry_id = finished(plane, OLD, 0.3, Verdict.FAIL, replace(made, checks=(*made.checks, made.checks[0])))
    assert "Evidence that could not be read: layers.three_way" in client.get(f"/compat/{entry_id}").text


def test_the_bundle_says_how_to_deploy(plane: Plane, client: TestClient) -> None:
    files = (BundleFile("launch.sh", "#!/bin/sh\nexec torchrun <b>"), BundleFile("README.md", "elsewhere"))
    bundle = plane.artifacts.put(archive(files), media_type="application/gzip", name="b.tar.gz")
    entry_id = finished(plane, OLD, 0.3, Verdict.FAIL, replace(failing_entry(), bundle=bundle))
    page = client.get(f"/compat/{entry_id}").text
    assert "exec torchrun &lt;b&gt;" in page and f"dayzero bundle {entry_id} --out" in page and "elsewhere" not in page


def test_the_method_is_a_page_of_every_version(client: TestClient) -> None:
    assert "Three runs" in client.get("/method").text
    for version in (*METHODS.values(), "inference-1"):
        page = client.get(f"/method/{version}")
        assert page.status_code == 200 and f"<strong>{version}</strong>" in page.text and "<table>" in page.text
    assert "newest version" in client.get("/method/inference-1").text
    assert "newest version" not in client.get(f"/method/{next(iter(METHODS.values()))}").text
    assert client.get("/method/<script>").status_code == 404
    assert ".md" not in re.sub(r"<code>.*?</code>", "", client.get("/method").text)
