"""Steps on the day: pickles, exact plans, and what a run that went wrong leaves behind."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.domain.computing import Computing
from dayzero.domain.entry import Correctness
from dayzero.domain.operators import Phase
from dayzero.domain.planning import Degrees, PlanRequest
from dayzero.domain.precision_policy import PrecisionPolicy, Promotion
from dayzero.domain.runs import Observation, RunEnd
from dayzero.domain.shards import ShardManifest
from dayzero.domain.verdict import Check, Grade, Verdict
from dayzero.errors import BadInputError, BlockedError, ExitCode
from dayzero.ports.hub import Progress
from dayzero.stages.entries.required import requirements
from dayzero.stages.judging.checks import CHECKS_OF
from dayzero.steps import climbing, concluding, shards, verifying, weights
from dayzero.steps.concluding import entry_of
from dayzero.steps.documents import exit_code_of
from dayzero.steps.publishing import bundle_files
from dayzero.steps.unpickling import require_readable
from fakes_bench import FakeCatalog, FakeTracer, FakeTransfer, ended, make_bench

OBSERVED = [Observation.OPERATORS, Observation.LAYERS, Observation.PERPLEXITY, Observation.PARALLEL, Observation.GENERATION,
            Observation.MEMORY]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pytorch_model.bin", r"acme/tiny publishes its weights only as \.bin files, which can run code.*DAYZERO_ALLOW_PICKLE"),
        ("model.pt", r"acme/tiny publishes its weights only as \.pt files, which are not read.*publisher for safetensors"),
        ("model.gguf", r"acme/tiny publishes its weights only as \.gguf files, which are not read"),
    ],
)
def test_other_weights_than_safetensors_are_blocked_with_the_remedy(name: str, says: str, tmp_path: Path) -> None:
    made = make_bench(tmp_path, weights=name)
    for step in (weights.headers_step, weights.exact_plan_step, shards.fetch_step):
        with pytest.raises(BlockedError, match=says):
            step(made.bench, made.lease)
    assert made.transfer.fetched == [] and made.runner.ran == []


def test_safetensors_beside_pickles_are_taken(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    beside = replace(made.release.files[-1], path="pytorch_model.bin")
    require_readable(made.bench, replace(made.release, files=(*made.release.files, beside)))


def test_the_control_plane_leaves_allowed_pickles_to_the_platform(tmp_path: Path) -> None:
    made = make_bench(tmp_path, weights="pytorch_model.bin")
    bench = replace(made.bench, allow_pickle=("acme/tiny",))
    assert "converted on the platform" in weights.headers_step(bench, made.lease).headline
    assert "on the platform" in weights.exact_plan_step(bench, made.lease).headline
    assert made.runner.ran == [] and made.hub.reads == 1, "only the configuration was read"


def test_a_header_that_lies_names_its_release(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    made.hub.contents = {**made.hub.contents, "model.safetensors": (2**62).to_bytes(8, "little")}
    with pytest.raises(BadInputError, match=r"hf:acme/tiny@c+: model.safetensors claims a header of"):
        weights.headers(made.bench, made.lease)


@pytest.mark.parametrize("degrees", [Degrees(tp=3), Degrees(pp=2)])
def test_an_exact_plan_of_fixed_degrees_has_the_bytes_of_its_shards(degrees: Degrees, tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=degrees, devices=3)
    plan = weights.exact_plan(made.bench, made.lease).noun.plan
    assert plan is not None and plan.degrees == degrees == weights.chosen_degrees(made.bench, made.lease)
    shards.shard_step(made.bench, made.lease)
    found = {check.check: check for check in made.ledger.checks(made.lease.adaptation_id)}
    assert {name: check.verdict for name, check in found.items()} == {
        "memory.weights": Verdict.PASS,
        "weights.integrity": Verdict.PASS,
    }
    assert len(found["weights.integrity"].evidence) == 1, "the manifest is kept as its evidence"


class UncheckedTransfer(FakeTransfer):
    """Writes shards of sources that it compares with nothing."""

    def shard(
        self, model_dir: Path, layout: ShardManifest, into: Path, progress: Progress | None, **named: object
    ) -> ShardManifest:
        return super().shard(model_dir, layout, into, progress)


@pytest.mark.parametrize("checked", [True, False])
def test_no_entry_on_unverified_weights_is_verified(checked: bool, tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(tp=3), devices=3)
    bench = made.bench if checked else replace(made.bench, transfer=UncheckedTransfer())
    weights.exact_plan(bench, made.lease)
    report = shards.shard_step(bench, made.lease)
    key = concluding.entry_of(bench, made.lease).key
    for need in requirements(key):
        if need.any_of[0] not in ("weights.integrity", "memory.peak"):
            passed = Check(need.layer, need.any_of[0], "tp3", Verdict.PASS, Grade.MEASURED, "it passes")
            made.ledger.put_check(passed, made.lease)
    entry = concluding.entry_of(bench, made.lease)
    if checked:
        assert entry.correctness is Correctness.VERIFIED and report.verdict is Verdict.PASS
        return
    assert entry.correctness is Correctness.FUNCTIONAL and entry.missing_checks == ("weights.integrity",)
    assert "unverified weights: 1 of 1 source files" in entry.reason and "unverified weights" in report.headline
    assert report.verdict is Verdict.NOT_RUN
    assert exit_code_of(entry) == ExitCode.NOT_MEASURED
    ended_so = concluding.conclude(bench, FakeCatalog(made.ledger), made.lease)
    assert ended_so.entry is not None and not ended_so.entry.verified and "unverified weights" in (ended_so.reason or "")


def test_shards_of_a_fetched_checkpoint_are_compared_with_what_its_release_states(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(tp=3), devices=3)
    checkpoint = shards.place_of(made.bench, made.lease).model_dir
    manifest = shards.write_shards(made.bench, made.lease, tmp_path / "out", checkpoint=checkpoint).manifest
    assert manifest.verified
    assert [(one.path, one.sha256) for one in manifest.sources] == [("model.safetensors", "b" * 64)]


def test_when_no_plan_fits_the_block_says_why_and_what_to_do(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(tp=2))
    with pytest.raises(BlockedError, match=r"no plan fits acme/tiny on cpu: .*9.*dayzero plan hf:acme/tiny --platform cpu"):
        weights.chosen_degrees(made.bench, made.lease)


def test_a_worker_keeps_to_the_plan_that_was_recorded(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(pp=3), devices=3)
    weights.exact_plan(made.bench, made.lease)
    elsewhere = replace(made.bench, degrees=None, devices=1)
    assert weights.chosen_degrees(elsewhere, made.lease) == Degrees(pp=3)


def test_without_a_reference_the_plan_is_kept_and_the_work_blocked(tmp_path: Path) -> None:
    made = make_bench(tmp_path, tracer=FakeTracer(BlockedError("model type marsian is unknown to transformers 5.24.")))
    for step in (weights.exact_plan_step, shards.shard_step, verifying.operators_step):
        with pytest.raises(BlockedError, match="no reference implementation of hf:acme/tiny@"):
            step(made.bench, made.lease)
    assert {"structure.weights", "plan.weights"} <= {kept.key.stage for kept in made.ledger.linked_results("adaptation-1")}
    assert made.runner.ran == []


@pytest.mark.parametrize("observation", OBSERVED)
@pytest.mark.parametrize("end", [RunEnd.CRASHED, RunEnd.TIMED_OUT, RunEnd.REFUSED])
def test_a_run_that_went_wrong_is_error_with_its_log_as_evidence(observation: Observation, end: RunEnd, tmp_path: Path) -> None:
    made = make_bench(tmp_path, outcome=ended(end, "signal 9"), degrees=Degrees(tp=3), devices=3)
    report = verifying.observe(made.bench, made.lease, observation)
    checks = made.ledger.checks("adaptation-1")
    assert {check.check for check in checks} == {name.value for _, name in CHECKS_OF[observation]}
    assert {check.verdict for check in checks} == {Verdict.ERROR}
    assert all("signal 9" in check.reason for check in checks)
    assert {made.ledger.artifact(sha256) for check in checks for sha256 in check.evidence} == {b"last words"}
    assert report.headline.startswith("error: ")
    assert report.verdict is Verdict.ERROR
    assert made.ledger.measurements("adaptation-1") == ()
    verifying.observe(made.bench, made.lease, observation)
    assert len(made.runner.ran) == 2, "what went wrong is not found again: it is run again"


def test_a_document_that_cannot_be_read_is_error(tmp_path: Path) -> None:
    made = make_bench(tmp_path, outcome=replace(ended(RunEnd.COMPLETED), document=b'{"lies": true}'))
    verifying.layers_step(made.bench, made.lease)
    (check,) = made.ledger.checks("adaptation-1")
    assert check.verdict is Verdict.ERROR
    assert "cannot be read" in check.reason


def test_one_device_has_no_parallel_run(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees())
    report = climbing.parallel_step(made.bench, made.lease)
    checks = made.ledger.checks("adaptation-1")
    assert {check.check for check in checks} == {name.value for _, name in CHECKS_OF[Observation.PARALLEL]}
    assert {check.verdict for check in checks} == {Verdict.NOT_RUN}
    assert made.runner.ran == []
    assert report.headline.startswith("not_run")
    assert report.verdict is Verdict.NOT_RUN


def test_a_request_carries_plan_and_shards_only_where_ranks_run(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(tp=3), devices=3)
    alone = verifying.request_for(made.bench, made.lease, Observation.GENERATION)
    ranks = verifying.request_for(made.bench, made.lease, Observation.PARALLEL)
    assert (alone.degrees, alone.shards_dir) == (Degrees(), None)
    assert ranks.degrees == Degrees(tp=3)
    assert ranks.shards_dir is not None and ranks.shards_dir.endswith("tp3")
    assert made.tracer.uses[0].phase is Phase.PREFILL


def test_an_adaptation_follows_its_policy(tmp_path: Path) -> None:
    policy = PrecisionPolicy("int8", (Promotion("model.layers.0.mlp.gate_proj", 0.5),))
    made = make_bench(tmp_path, policy=policy)
    assert verifying.request_for(made.bench, made.lease, Observation.PERPLEXITY).policy == policy
    native = make_bench(tmp_path)
    requests = [verifying.request_for(one.bench, one.lease, Observation.PERPLEXITY) for one in (made, native)]
    keys = {verifying.key_of(made.bench, made.lease, request) for request in requests}
    assert len(keys) == 2, "what was found in the native dtype says nothing about the policy"
    entry = entry_of(made.bench, made.lease)
    assert (entry.key.dtype, entry.policy) == ("bfloat16+int8", policy)
    assert entry.key.computing.dtype == entry_of(native.bench, native.lease).key.dtype == "bfloat16"
    names = {file.path for file in bundle_files(made.bench, made.lease)} - {
        file.path for file in bundle_files(native.bench, native.lease)
    }
    assert names == {"precision.py", "precision_policy.json"}


def test_a_plan_with_a_cache_in_8_bits_has_it_checked(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    assert "native" in verifying.planned_cache_step(made.bench, made.lease).headline
    assert made.runner.ran == [] and made.ledger.checks("adaptation-1") == ()
    other = make_bench(tmp_path)
    asked = replace(other.bench, request=PlanRequest(cache_dtypes=("int8",)))
    with pytest.raises(BadInputError, match="cpu takes no int8 cache"):
        verifying.planned_cache_step(asked, other.lease)
    profile = replace(asked.profiles["cpu"], dtypes=("bfloat16", "int8"))
    other.bench = replace(asked, profiles={"cpu": profile})
    verifying.planned_cache_step(other.bench, other.lease)
    assert [request.observation for request in other.runner.ran] == [Observation.CACHES]
    entry = entry_of(other.bench, other.lease)
    assert entry.key.computing == Computing("bfloat16", cache_dtype="int8") and entry.key.dtype == "bfloat16+int8-cache"
    assert "cache.int8_head" in entry.missing_checks
    assert not any(name.startswith("cache.") for name in entry_of(made.bench, made.lease).missing_checks)
