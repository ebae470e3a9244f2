"""Each command on a model directory prints the one JSON document that docs/reference/json.md describes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from door_commands import Door, Said
from safetensors import safe_open

from dayzero.codec import load
from dayzero.domain.columns import COMPATIBILITY_COLUMNS, ROLLUP_COLUMNS, ColumnKind
from dayzero.domain.entry import CompatibilityEntry, Correctness, DayZeroClock
from dayzero.domain.operators import OperatorInventory, OperatorManifest
from dayzero.domain.verdict import Check, Mode, Verdict, VerificationReport
from dayzero.stages.coverage.covering import cover
from dayzero.stages.entries.deciding import derive_entry
from dayzero.stages.entries.required import METHODS

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text()
COLUMNS = ("lifecycle", "correctness", "performance", "freshness")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    return Door(tmp_path_factory.mktemp("json"), {"CPU_DEVICES": "2"})


@pytest.fixture(scope="module")
def ops(door: Door, tiny: Path) -> Said:
    return door("ops", tiny, "--platform", "cpu", "--json")


@pytest.fixture(scope="module")
def verified(door: Door, tiny: Path) -> Said:
    return door("verify", tiny, "--platform", "cpu", "--json")


def documented(schema: str) -> set[str]:
    """The top-level fields that the page lists for a schema (those in brackets belong to the field before them)."""
    row = next(line for line in PAGE.splitlines() if f"`{schema}`" in line)
    fields = row.split("|")[3]
    while "(" in fields:
        fields = re.sub(r"\([^()]*\)", "", fields)
    return set(re.findall(r"`(\w+)`", fields))


def checked(said: Said, schema: str) -> Any:
    """The document, when it is of that schema and has every field that is documented for it."""
    document = said.document
    assert document["schema"] == schema
    assert documented(schema) <= set(document), documented(schema) - set(document)
    return document


def weight_bytes(files: list[Path]) -> int:
    total = 0
    for path in files:
        with safe_open(path, framework="pt") as tensors:
            total += sum(tensors.get_tensor(name).nbytes for name in tensors.keys())  # noqa: SIM118 - not a mapping
    return total


def test_inspect(door: Door, tiny: Path) -> None:
    said = door("inspect", tiny, "--context", "1000", "--json")
    assert (said.code, said.err) == (0, "")
    document = checked(said, "dayzero.inspect/1")
    assert document["model"] == {"hub": "dir", "path": str(tiny), "revision": document["model"]["revision"]}
    assert document["known"] is True
    assert {"index", "mixer", "feed_forward"} <= set(document["layers"][0])
    parameters = {"total_language", "total", "checkpoint_total", "active", "by_component", "source"}
    assert parameters <= set(document["parameters"])
    assert document["parameters"]["source"] == "tensor_headers"
    assert set(document["weights"]) >= {"bytes", "by_dtype"}
    assert document["weights"]["bytes"] == weight_bytes(sorted(tiny.glob("*.safetensors")))
    state = document["state"]
    assert state["bytes_at_context"] == 1000 * state["bytes_per_token"] + state["constant_bytes"]
    assert state["segments"] == [{"from_token": 0, "bytes_per_token": state["bytes_per_token"]}]
    assert document["findings"] == [] and isinstance(document["assumptions"], list)


def test_inspect_counts_the_cache_in_the_dtype_that_is_asked_for(door: Door, tiny: Path) -> None:
    usual = door("inspect", tiny, "--json").document["state"]
    small = door("inspect", tiny, "--kv-dtype", "fp8", "--json").document["state"]
    assert usual["bytes_per_token"] == 2 * small["bytes_per_token"]
    refused = door("inspect", tiny, "--kv-dtype", "fp5", "--json")
    assert refused.code == 2
    assert "fp5 is no cache dtype" in refused.error and "bfloat16" in refused.error


def test_ops(ops: Said) -> None:
    assert (ops.code, ops.err) == (0, "")
    document = checked(ops, "dayzero.ops/1")
    assert {"name", "dtypes", "phase", "count", "modules"} <= set(document["graph"][0])
    assert {use["phase"] for use in document["graph"]} == {"prefill", "decode", "train"}
    assert document["totals"]["graph_uses"] == len(document["graph"])
    assert document["coverage"]["platform"] == "cpu"
    assert document["coverage"]["gaps"] == []
    assert document["coverage"]["graph_coverage"] == 1.0


def test_ops_without_a_trace_could_not_be_measured(door: Door, tiny: Path, tmp_path: Path) -> None:
    config = json.loads((tiny / "config.json").read_text()) | {"model_type": "marsian"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = door("ops", tmp_path / "config.json", "--platform", "cpu", "--json")
    assert said.code == 3
    assert said.document["coverage"]["graph_coverage"] is None
    assert said.document["traced_with"] is None
    assert "trace.no_reference" in [finding["code"] for finding in said.document["findings"]]


def test_plan(door: Door, tiny: Path) -> None:
    said = door("plan", tiny, "--platform", "cpu", "--devices", "2", "--json")
    assert (said.code, said.err) == (0, "")
    document = checked(said, "dayzero.plan/1")
    plan = document["plan"]
    assert {"tp", "pp", "ep", "dp", "devices", "memory", "estimates", "binds"} <= set(plan)
    ranks = plan["memory"]["per_rank_bytes"]
    assert len(ranks) == plan["devices"] == plan["tp"] * plan["pp"] * plan["dp"]
    for rank in ranks:
        items = {name: value for name, value in rank.items() if name not in ("rank", "total", "limit")}
        assert rank["total"] == sum(items.values()) <= rank["limit"]
    assert set(plan["estimates"]) == {"ttft_s", "tpot_s", "throughput_tokens_per_s"}
    assert sum(group["count"] for group in plan["memory"]["by_ranks"]) == plan["devices"]
    assert document["launch"]["schema"] == "dayzero.launch/1"
    assert plan["rungs"][-1]["devices"] == plan["devices"]
    assert all({"family", "reason", "numbers"} <= set(no) for no in document["rejected"])
    assert document["candidates"] >= 1 + len(document["alternatives"])


def test_plan_of_degrees_that_do_not_fit_says_why(door: Door, tiny: Path) -> None:
    said = door("plan", tiny, "--platform", "cpu", "--tp", "3", "--json")
    assert said.code == 1
    assert said.document["plan"] is None
    assert any("3" in no["reason"] for no in said.document["rejected"])


def test_plan_draws_and_launches(door: Door, tiny: Path, tmp_path: Path) -> None:
    config = tiny / "config.json"
    shown = door("plan", config, "--platform", "h200", "--devices", "16", "--tp", "2", "--svg", tmp_path / "plan.svg")
    assert shown.code == 0 and "tp2 on 2 devices" in shown.out and "Memory by rank" in shown.out
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    script = door("plan", config, "--platform", "h200", "--devices", "16", "--tp", "2", "--launch", "vllm")
    assert script.code == 0 and script.out.startswith("#!/usr/bin/env bash") and "--tensor-parallel-size 2" in script.out
    for arguments, says in (
        (("--launch", "llama.cpp"), "llama.cpp is no engine that dayzero launches"),
        (("--pp", "2", "--launch", "torchrun"), "torchrun cannot run tp2-pp2: the modelling library does not combine"),
        (("--svg", tmp_path / "none" / "plan.svg"), "plan.svg cannot be written"),
    ):
        refused = door("plan", config, "--platform", "h200", "--devices", "16", "--tp", "2", *arguments)
        assert refused.code == 2 and says in refused.error, refused.err


def test_fetch_and_plan_agree_on_the_bytes(door: Door, tiny: Path, tmp_path: Path) -> None:
    said = door("fetch", tiny, "--out", tmp_path / "out", "--tp", "2", "--json")
    assert (said.code, said.err) == (0, "")
    document = checked(said, "dayzero.fetch/2")
    planned = door("plan", tiny, "--platform", "cpu", "--tp", "2", "--json").document["plan"]
    weights = {rank["rank"]: rank["weights"] for rank in planned["memory"]["per_rank_bytes"]}
    assert len(document["files"]) == 2
    for file in document["files"]:
        path = tmp_path / "out" / file["path"]
        assert path.stat().st_size == file["size_bytes"]
        assert file["weight_bytes"] == weight_bytes([path]) == weights[file["rank"]]
    again = door("fetch", tiny, "--out", tmp_path / "out", "--tp", "2", "--verify", "--json")
    assert again.code == 0 and again.document["files"] == document["files"]
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    found = door("fetch", tiny, "--out", tmp_path / "out", "--tp", "2", "--verify")
    assert found.code == 2 and f"differ from their manifest: {path.name} (tensor " in found.error
    assert path.read_bytes() == damaged


def test_verify(verified: Said) -> None:
    document = checked(verified, "dayzero.verify/1")
    fields = (
        "layer",
        "check",
        "rung",
        "verdict",
        "grade",
        "reason",
        "measured",
        "tolerance",
        "unit",
        "n",
        "evidence",
        "numbers",
    )
    assert all(set(fields) <= set(check) for check in document["checks"])
    assert set(COLUMNS) | {"reason"} <= set(document["entry"])
    by_name = {check["check"]: check for check in document["checks"]}
    assert by_name["operators.coverage"]["verdict"] == "pass"
    assert by_name["memory.weights"]["verdict"] == "pass"
    assert by_name["operators.float64"]["n"] > 10
    assert by_name["operators.float64"]["evidence"], "a measured check has evidence"
    assert document["culprits"] == []
    expected = {"verified": 0, "failing": 1, "functional": 3, "unknown": 3}
    assert verified.code == expected[document["entry"]["correctness"]]
    assert document["entry"]["correctness"] in ("verified", "functional"), document["entry"]


def test_verify_of_one_check_leaves_the_rest_unknown(door: Door, tiny: Path) -> None:
    said = door("verify", tiny, "--platform", "cpu", "--check", "operators", "--json")
    assert said.code == 3
    assert said.document["entry"]["correctness"] == "unknown"
    assert "end_to_end.generation" in " ".join(said.document["missing_checks"])
    refused = door("verify", tiny, "--platform", "cpu", "--check", "taste", "--json")
    assert refused.code == 2
    assert "taste" in refused.error and "layers" in refused.error


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_adapt_and_the_compatibility_list(tiny: Path, database_url: str, tmp_path: Path) -> None:
    door = Door(tmp_path, {"DATABASE_URL": database_url, "CPU_DEVICES": "2"})
    said = door("adapt", tiny, "--platform", "cpu", "--no-server", "--json", timeout_s=500)
    document = checked(said, "dayzero.adapt/1")
    assert document["adaptation"]["state"] == "done"
    assert said.err == ""
    entry = document["verification"]["entry"]
    assert said.code == {"verified": 0, "functional": 3}[entry["correctness"]]

    listed = checked(door("compat", "ls", "--json"), "dayzero.compat/1")
    (row,) = listed["entries"]
    assert list(row) == [column.name for column in COMPATIBILITY_COLUMNS]
    assert [row[name] for name in COLUMNS] == [entry[name] for name in COLUMNS]
    for column in COMPATIBILITY_COLUMNS:
        if column.kind is ColumnKind.NUMBER and column.name != "time_to_verified_s":
            assert isinstance(row[column.name], int), column.name
    assert row["checks_failed"] == 0 and row["checks_passed"] > 5

    (rolled,) = door("compat", "ls", "--rollup", "--json").document["rollup"]
    assert list(rolled) == [column.name for column in ROLLUP_COLUMNS]
    assert isinstance(rolled["entries"], int)
    shown = checked(door("compat", "show", row["entry_id"][:12], "--json"), "dayzero.compat/1")
    assert shown["entries"] == [row]
    assert shown["entry"]["checks"] == document["verification"]["checks"]
    told = checked(door("compat", "history", "llama-tiny", "--json"), "dayzero.compat/1")
    assert told["entries"][0] == row
    exported = checked(door("compat", "export", f'model = "{row["model"]}"'), "dayzero.compat/1")
    assert exported["entries"] == [row]
    shown_run = door("run", "show", row["adaptation_id"], "--json").document
    assert set(shown_run) == {"schema", "adaptation", "checks", "measurements", "results"}
    assert set(shown_run) < documented("dayzero.run/1") | {"schema"}, "the page lists the fields of every `run` command"
    assert door("compat", "show", "ffffffff", "--json").code == 2


@pytest.mark.postgres
@pytest.mark.timeout(1500)
def test_announce(tiny: Path, database_url: str, tmp_path: Path) -> None:
    door = Door(tmp_path, {"DATABASE_URL": database_url})
    config = tmp_path / "coming-soon" / "config.json"
    config.parent.mkdir()
    config.write_text((tiny / "config.json").read_text())
    document = checked(door("announce", config, "--platform", "cpu", "--later", "--json"), "dayzero.announce/1")
    assert document["new"] is True and document["platforms"] == []
    (prestage,) = document["adaptations"]
    (row,) = door("run", "ls", "--json").document["adaptations"]
    assert (row["id"], row["purpose"], row["state"], row["model"]) == (prestage, "prestage", "requested", "coming-soon")

    said = door("announce", config, "--platform", "cpu", "--platform", "h200", "--json", timeout_s=500)
    assert said.code == 3, said.err
    document = checked(said, "dayzero.announce/1")
    assert document["new"] is False
    here, there = document["platforms"]
    assert (here["adaptation"], here["state"], there["state"]) == (prestage, "done", "blocked")
    verdicts = {check["check"]: check["verdict"] for check in here["checks"]}
    assert verdicts["operators.coverage"] == verdicts["rehearsal.operators.float64"] == "pass"
    assert verdicts["rehearsal.end_to_end.generation"] == "pass"
    assert {check["grade"] for check in here["checks"] if check["check"].startswith("rehearsal.")} == {"predicted"}
    assert (here["entry"]["lifecycle"], here["entry"]["grade"]) == ("staged", "predicted")
    assert any(change["name"] == "num_hidden_layers" for change in here["reduction"])
    assert there["plan"] and any("worker join --platform h200" in sentence for sentence in there["left"])

    shown = door("announce", config, "--platform", "cpu", "--platform", "h200")
    assert "Known before the weights" in shown.out and "Left for the day" in shown.out
    assert len(shown.out.splitlines()) < 60, "one screen"
    log = door("run", "logs", prestage).out
    assert log.count("rehearse-operators (re-used)") == 1, "what was found is found again"
    config.write_text("{")
    refused = door("announce", config, "--json")
    assert refused.code == 2
    assert "not JSON" in refused.error


def test_an_operator_taken_out_of_the_platform_is_a_gap_and_changes_the_entry(tiny: Path, tmp_path: Path) -> None:
    mine = tmp_path / "platforms"
    mine.mkdir()
    (mine / "cpu.toml").write_text('slug = "cpu"\n[excluded_operators]\n"aten.mm.default" = "wrong on this host"\n')
    door = Door(tmp_path, {"PLATFORMS_DIR": str(mine), "CPU_DEVICES": "1"})
    covered = door("ops", tiny, "--platform", "cpu", "--json")
    assert covered.code == 1
    assert [gap["operator"] for gap in covered.document["coverage"]["gaps"]] == ["aten.mm.default"]
    said = door("verify", tiny, "--platform", "cpu", "--check", "operators", "--json")
    assert said.code == 1
    assert said.document["entry"]["correctness"] == "failing"
    assert "aten.mm.default" in said.document["entry"]["reason"]
    coverage = next(check for check in said.document["checks"] if check["check"] == "operators.coverage")
    assert coverage["verdict"] == "fail" and coverage["measured"] < 1.0


def parts_of(name: str, needed: OperatorInventory) -> set[str]:
    """What a composite ran as in the trace, at every depth; empty for an operator that is none."""
    inside = {use.name for use in needed.graph if use.part_of == name}
    return inside.union(*(parts_of(part, needed) for part in inside - {name}))


def test_any_operator_taken_out_changes_the_entry(ops: Said, verified: Said, door: Door) -> None:
    fields = {key: ops.document[key] for key in ("architecture", "kernels", "graph", "traced_with", "findings")}
    needed = load(OperatorInventory, json.dumps(fields))
    manifest = load(
        OperatorManifest,
        json.dumps(door("platform", "probe", "cpu", "--operator", "aten.mm.default", "--json").document["manifest"]),
    )
    checks = tuple(load(Check, json.dumps(check)) for check in verified.document["checks"])
    passing = tuple(check for check in checks if check.check != "operators.coverage")
    whole = entry_with(needed, manifest, passing)
    names = sorted({use.name for use in needed.graph})
    assert len(names) > 10
    for name in names:
        # A composite that ran as its parts is taken out with them: alone it is decomposed into them, which is said below.
        taken = {name, *parts_of(name, needed)}
        kept = tuple(support for support in manifest.operators if support.name not in taken)
        parts = tuple(rule for rule in manifest.decompositions if rule.name not in taken)
        bare = OperatorManifest(manifest.platform, manifest.provider, manifest.version, kept, parts)
        gap = entry_with(needed, bare, passing)
        assert (taken - {name} if len(taken) > 1 else taken) <= set(gap.gaps)
        assert gap.correctness is Correctness.FAILING is not whole.correctness
        assert "operators.coverage" in gap.reason
        kept = tuple(support for support in manifest.operators if support.name != name)
        bridged = OperatorManifest(manifest.platform, manifest.provider, manifest.version, kept, manifest.decompositions)
        row = next(row for row in cover(needed, bridged).operators if row.operator == name)
        assert row.kind.value in ("missing", "decomposed")
        assert "not in the manifest" in row.why, "where a decomposition bridges it, the report says so"


def entry_with(needed: OperatorInventory, manifest: OperatorManifest, checks: tuple[Check, ...]) -> CompatibilityEntry:
    from dayzero.domain.entry import EntryKey
    from dayzero.domain.planning import Degrees

    report = VerificationReport(METHODS[Mode.INFERENCE], manifest.platform, Mode.INFERENCE, checks)
    key = EntryKey("llama-tiny", "c" * 64, manifest.platform, "s", "torch", "bfloat16", Degrees(tp=2), Mode.INFERENCE)
    found = cover(needed, manifest)
    entry = derive_entry(key, mode=Mode.INFERENCE, coverage=found, report=report, plan=None, clock=DayZeroClock())
    assert any(check.verdict is Verdict.PASS for check in entry.checks)
    return entry
