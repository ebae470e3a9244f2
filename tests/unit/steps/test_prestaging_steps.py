"""Steps before the weights: what is found again, what is refused, and what an unknown model still tells."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints import SMOLLM2
from dayzero.domain.adaptation import Purpose
from dayzero.domain.planning import Degrees
from dayzero.errors import BadInputError, BlockedError, DayzeroError, DependencyError, MeasurementError, NotFoundError
from dayzero.steps import planning, prestaging
from dayzero.steps.announcing import announce
from dayzero.steps.prestaging import NO_REFERENCE, NOT_TRACED, require_reference
from fakes_bench import FakeTracer, make_bench

MARSIAN = {**SMOLLM2, "model_type": "marsian", "architectures": ["MarsianForCausalLM"]}


def test_a_result_is_computed_once_and_then_found(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    first = prestaging.inventory(made.bench, made.lease)
    reads, traced = made.hub.reads, made.tracer.traced
    again = prestaging.inventory(made.bench, made.lease)
    assert (first.reused, again.reused) == (False, True)
    assert again.noun == first.noun
    assert (made.hub.reads, made.tracer.traced) == (reads, traced) == (1, 1)


def test_every_step_before_the_weights_says_what_it_found(tmp_path: Path) -> None:
    made = make_bench(tmp_path, weights=None, purpose=Purpose.PRESTAGE)
    said = [step(made.bench, made.lease) for step in (prestaging.structure_step, prestaging.inventory_step,
            prestaging.coverage_step, planning.first_plan_step)]  # fmt: skip
    assert [report.step for report in said] == ["structure", "inventory", "coverage", "plan"]
    assert "3 layers" in said[0].headline
    assert "100.0%" in said[2].headline
    assert "pp2 on 2 devices" in said[3].headline and "1 rejected" in said[3].headline


@pytest.mark.parametrize(
    "refusal",
    [
        BadInputError("transformers cannot build llama from this configuration: heads."),
        BlockedError("model type marsian is unknown to transformers 5.24.", remedy="Install a newer one."),
    ],
    ids=["refused", "unknown"],
)
def test_what_the_library_refuses_stops_only_what_needs_a_reference(refusal: DayzeroError, tmp_path: Path) -> None:
    made = make_bench(tmp_path, tracer=FakeTracer(refusal))
    found = prestaging.inventory(made.bench, made.lease).noun
    assert NO_REFERENCE in [finding.code for finding in found.findings]
    assert found.traced_with is None
    assert prestaging.coverage(made.bench, made.lease).noun.graph_coverage is None
    assert planning.first_plan(made.bench, made.lease).noun.plan is not None
    assert len(prestaging.structure(made.bench, made.lease).noun.layers) == 3
    with pytest.raises(BlockedError, match=r"no reference implementation of hf:acme/tiny@c+: .*(heads|marsian)"):
        require_reference(made.bench, made.lease)
    assert made.tracer.traced == 1, "a refusal lasts: it is found again"


@pytest.mark.parametrize("failure", [MeasurementError("it took too long."), DependencyError("torch is not installed.")])
def test_what_merely_failed_is_tried_again_by_the_next_attempt(failure: DayzeroError, tmp_path: Path) -> None:
    made = make_bench(tmp_path, tracer=FakeTracer(failure))
    found = prestaging.inventory(made.bench, made.lease).noun
    assert NOT_TRACED in [finding.code for finding in found.findings]
    require_reference(made.bench, made.lease)
    assert made.tracer.traced == 1, "within an attempt the failure is found again"
    made.tracer.failing = None
    later = replace(made.lease, attempt=2)
    made.ledger._adaptation = replace(made.ledger._adaptation, attempt=2)
    assert prestaging.inventory(made.bench, later).noun.traced_with == "transformers 5.24"
    assert made.tracer.traced == 2


def test_a_repository_whose_code_was_allowed_stays_blocked_while_nothing_can_run_it(tmp_path: Path) -> None:
    refusal = FakeTracer(BlockedError("unknown."))
    made = make_bench(tmp_path, MARSIAN, tracer=refusal, allow_remote_code=("acme/tiny",))
    with pytest.raises(BlockedError, match="no reference implementation of hf:acme/tiny"):
        require_reference(made.bench, made.lease)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[]", "holds a JSON list"),
        (b'{"hidden_size": "x"}', "hidden_size"),
    ],
)
def test_a_broken_configuration_names_its_release(config: bytes, says: str, tmp_path: Path) -> None:
    made = make_bench(tmp_path, config)
    with pytest.raises(BadInputError, match="acme/tiny") as caught:
        prestaging.structure(made.bench, made.lease)
    assert says in str(caught.value)


def test_without_a_manifest_coverage_is_blocked_with_the_remedy(tmp_path: Path) -> None:
    made = make_bench(tmp_path, told=False)
    with pytest.raises(BlockedError, match="dayzero worker join --platform cpu"):
        prestaging.coverage(made.bench, made.lease)


def test_a_platform_without_a_profile_is_named_with_those_that_have_one(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    made.bench.profiles.clear()  # type: ignore[attr-defined]  # a dict here
    with pytest.raises(NotFoundError, match="platform cpu has no profile"):
        prestaging.subject_of(made.bench, made.lease)


@pytest.mark.parametrize(("degrees", "fits"), [(Degrees(tp=3), True), (Degrees(tp=2), False), (Degrees(pp=3), True)])
def test_a_plan_of_fixed_degrees_is_that_plan_or_none(degrees: Degrees, fits: bool, tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=degrees, devices=3)
    report = planning.first_plan(made.bench, made.lease).noun
    assert report.candidates == 1
    assert (report.plan is not None and report.plan.degrees == degrees) is fits
    assert fits or all(no.degrees == degrees and no.reason for no in report.rejected)


def test_weights_are_not_announced(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    with pytest.raises(BadInputError, match="has weights already"):
        announce(None, made.hub, made.release, ("cpu",))  # type: ignore[arg-type]  # refused before either is used
