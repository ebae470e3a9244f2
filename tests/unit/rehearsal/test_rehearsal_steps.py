"""The steps of a rehearsal with fakes: what is kept, what is left, and what one screen says of it."""

from dataclasses import replace
from pathlib import Path

from dayzero.codec import dump
from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.entry import Correctness, Lifecycle
from dayzero.domain.observations import CheckName, OperatorError, OperatorErrors
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.domain.runs import Observation, RunEnd, RunOutcome
from dayzero.domain.verdict import Grade, Verdict
from dayzero.errors import BlockedError, ExitCode, MeasurementError
from dayzero.steps import planning, prestaging, rehearsing
from dayzero.steps.concluding import conclude, found_by, stop
from dayzero.steps.staged import Staged, common_lines, exit_code_of_staged, known_rows, left_rows, staged_document
from dayzero.steps.waiting import no_manifest_reason, no_worker_reason
from fakes_bench import FakeTracer, Made, ended, make_bench


def observed(share: float) -> RunOutcome:
    name = "aten.mm.default"
    row = OperatorError(name, ("bfloat16",), "Tx8", "model.layers.1.mlp", name, None, 100, 0.01, 0.002, share)
    document = dump(OperatorErrors("bfloat16", "eager", 8, (row,), (), 1.0))
    return RunOutcome(RunEnd.COMPLETED, document, "", "", 1.0, None)


def prestage(folder: Path, **options: object) -> Made:
    return make_bench(folder, weights=None, purpose=Purpose.PRESTAGE, **options)  # type: ignore[arg-type]


def control(made: Made) -> None:
    for step in (
        prestaging.structure_step,
        prestaging.inventory_step,
        prestaging.coverage_step,
        planning.first_plan_step,
        rehearsing.reduction_step,
    ):
        step(made.bench, made.lease)


def concluded(made: Made) -> Staged:
    outcome = conclude(made.bench, made.catalog, made.lease)  # type: ignore[arg-type]  # finish and clock are all it takes
    return Staged("cpu", outcome, found_by(made.bench, made.lease))


def test_a_rehearsal_asks_for_dummy_weights_of_the_reduced_model_and_is_found_again(tmp_path: Path) -> None:
    made = prestage(tmp_path, outcome=observed(1.0))
    control(made)
    report = rehearsing.operators_step(made.bench, made.lease)
    (request,) = made.runner.ran
    assert request.options["dummy_seed"] == rehearsing.SEED and request.model_dir is not None
    reduced = rehearsing.reduction(made.bench, made.lease).noun
    assert (Path(request.model_dir) / "config.json").read_text() == reduced.config
    assert reduced.layers < 30
    again = rehearsing.operators_step(made.bench, made.lease)
    assert (report.reused, again.reused, len(made.runner.ran)) == (False, True, 1)


def test_what_the_rehearsal_measures_is_a_prediction_and_decides_nothing(tmp_path: Path) -> None:
    made = prestage(tmp_path, outcome=observed(0.5))
    control(made)
    report = rehearsing.operators_step(made.bench, made.lease)
    assert report.verdict is Verdict.FAIL
    staged = concluded(made)
    entry = staged.outcome.entry
    assert entry is not None
    (check,) = [one for one in entry.checks if one.check == "rehearsal." + CheckName.OPERATORS_FLOAT64.value]
    assert (check.verdict, check.grade) == (Verdict.FAIL, Grade.PREDICTED)
    assert "dummy weights" in check.reason and check.numbers["rehearsed_layers"] == 2
    assert (entry.lifecycle, entry.correctness, entry.grade) == (Lifecycle.STAGED, Correctness.UNKNOWN, Grade.PREDICTED)
    assert entry.reason.startswith("rehearsal.operators.float64 fails: ")
    assert exit_code_of_staged([staged]) is ExitCode.VERDICT_FAIL


def test_a_platform_without_a_worker_keeps_what_is_known_and_waits(tmp_path: Path) -> None:
    made = prestage(tmp_path, told=False)
    control(made)
    rehearsing.leave_rehearsal(made.bench, made.lease, no_worker_reason("cpu"))
    staged = concluded(made)
    assert (staged.outcome.adaptation.state, staged.outcome.reason) == (AdaptationState.BLOCKED, no_worker_reason("cpu"))
    entry = staged.outcome.entry
    assert entry is not None and entry.lifecycle is Lifecycle.STAGED
    assert made.runner.ran == []
    assert any(no_manifest_reason("cpu") in sentence for sentence in entry.left)
    assert entry.left[-1].startswith("check the real weights: operators.coverage")
    known = {row["known"]: row["cpu"] for row in known_rows([staged])}
    assert known["operators.coverage"] == "not_run: waits for a manifest"
    assert known["rehearsal.layers.three_way"] == "not_run: waits for a worker"
    assert known["plan"].startswith("tp1") or "devices" in known["plan"]
    (waiting,) = [row for row in left_rows([staged]) if no_worker_reason("cpu") in row["left"]]
    assert waiting["left"].count("rehearsal.") == 6, "six checks wait for one thing, which is said once"
    assert any("layers" in line for line in common_lines(staged.found))
    assert exit_code_of_staged([staged]) is ExitCode.NOT_MEASURED
    document = staged_document(staged)
    assert isinstance(document, dict) and document["left"] == list(entry.left) and document["plan"]


def test_without_a_reference_nothing_is_run_and_the_reason_is_left(tmp_path: Path) -> None:
    made = prestage(tmp_path, tracer=FakeTracer(BlockedError("model type marsian is unknown.")))
    control(made)
    report = rehearsing.generation_step(made.bench, made.lease)
    assert report.verdict is Verdict.NOT_RUN and made.runner.ran == []
    staged = concluded(made)
    assert staged.outcome.adaptation.state is AdaptationState.DONE, "no worker's joining would change that"
    assert staged.outcome.entry is not None
    assert any("no reference implementation" in sentence for sentence in staged.outcome.entry.left)


def test_a_rehearsal_that_breaks_is_error_and_not_kept(tmp_path: Path) -> None:
    made = prestage(tmp_path, outcome=ended(RunEnd.CRASHED, "signal 11"))
    control(made)
    report = rehearsing.rehearse(made.bench, made.lease, Observation.LAYERS)
    assert report.verdict is Verdict.ERROR and "signal 11" in report.headline
    rehearsing.generation_step(made.bench, made.lease)
    rehearsing.rehearse(made.bench, made.lease, Observation.LAYERS)
    assert len(made.runner.ran) == 3
    staged = concluded(made)
    assert staged.outcome.entry is not None
    assert staged.outcome.entry.reason.startswith("rehearsal.layers.three_way could not be measured")
    (broken,) = [row["left"] for row in left_rows([staged]) if "generation run crashed" in row["left"]]
    assert broken.count("rehearsal.") == 3, "three checks of one run that crashed are one sentence"


def test_an_error_on_the_way_is_the_exit_code(tmp_path: Path) -> None:
    made = prestage(tmp_path)
    error = MeasurementError("it broke.")
    outcome = stop(made.bench, made.catalog, made.lease, error)  # type: ignore[arg-type]
    assert exit_code_of_staged([Staged("cpu", outcome, found_by(made.bench, made.lease))]) is error.exit_code


def test_an_adaptation_goes_on_being_blocked_without_a_manifest(tmp_path: Path) -> None:
    made = make_bench(tmp_path, told=False)
    try:
        prestaging.coverage_step(made.bench, made.lease)
    except BlockedError as error:
        assert str(error) == no_manifest_reason("cpu")
    else:
        raise AssertionError("an adaptation needs its coverage")


def on_accelerator(made: Made, memory_bytes: float, *, any_devices: bool = True) -> None:
    size = Figure(memory_bytes, "B", "the test", FigureStatus.PUBLISHED)
    profile = PlatformProfile("cpu", "An accelerator", "cuda", memory_bytes=size, link_domains=(LinkDomain("node", 8),))
    made.bench = replace(made.bench, profiles={"cpu": profile}, devices=1, any_devices=any_devices)


def test_a_model_too_large_for_the_devices_takes_the_next_link_domain_unless_they_were_asked_for(tmp_path: Path) -> None:
    made = prestage(tmp_path)
    on_accelerator(made, 2e9)
    whole = planning.first_plan(made.bench, made.lease).noun.plan
    assert whole is not None and whole.degrees.world == 1
    needed_bytes = max(budget.total_bytes for budget in whole.memory)
    on_accelerator(made, needed_bytes * 0.9)
    spread = planning.first_plan(made.bench, made.lease).noun.plan
    assert spread is not None and 1 < spread.degrees.world <= 8
    on_accelerator(made, needed_bytes * 0.9, any_devices=False)
    assert planning.first_plan(made.bench, made.lease).noun.plan is None
