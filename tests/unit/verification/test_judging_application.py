"""Verdicts at application level: greedy texts, downstream tasks, embeddings. For each limit, figures on both sides of it."""

from dataclasses import replace

import pytest

from dayzero.codec import dump, load
from dayzero.domain.evaluation import PairedOutcomes
from dayzero.domain.observations import Divergence, GenerationObserved, TensorError
from dayzero.domain.observed_encoding import EncodingObserved, Exchange
from dayzero.domain.observed_tasks import TaskItem, TasksObserved, paired
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.judging.checks import judge
from dayzero.stages.judging.tasks import tasks_check
from dayzero.stages.structure.language_head import writes_text

GENERATION = GenerationObserved(
    "p", "Paris.", "tok", 5, 24, True, 0, "bfloat16", "eager, cached", 1.0, 0.1, 0.02, 20.0, 1000, None, None, None, None, None,
    "Paris.", "eager, whole text", prompts=3, compared_tokens=72,
)  # fmt: skip
CLOSE = TensorError(18432, 1e-6, 1e-6, 0.9999999)
ENCODING = EncodingObserved(
    48, 384, 500, "BertTokenizer of the checkpoint", None, "mean", "1_Pooling/config.json", "float32", "float64",
    "eager, alone", "eager, padded", CLOSE, CLOSE, False, PairedOutcomes(24, 0, 0, 0), 6624, 0, (), 1e-7, 0.8, (0.1, 0.2),
    1.0, 0.01, 100.0, 1000.0, 900,
)  # fmt: skip


def checks(observation: Observation, noun: object) -> dict[str, Check]:
    outcome = RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, 900)
    return {check.check: check for check in judge(RunRequest(observation, "cpu"), outcome, load).checks}


def tasks(both: int, only_reference: int, only_target: int, neither: int, **changes: object) -> TasksObserved:
    kinds = [(0, 0)] * both + [(0, 1)] * only_reference + [(1, 0)] * only_target + [(1, 1)] * neither
    items = tuple(
        TaskItem("sums", at, "1 + 1 =", ("2", "3"), 0, left, right, 0.1, 0.1) for at, (left, right) in enumerate(kinds)
    )
    made = TasksObserved(
        "lm-eval", "0.4", ("sums",), (("sums.yaml", "00"),), items, "bfloat16", "eager", "sdpa", "tok", 0.01, False
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def text_check(*divergences: Divergence) -> Check:
    return checks(Observation.GENERATION, replace(GENERATION, divergences=divergences))["end_to_end.reference_text"]


def test_texts_that_part_within_the_references_own_error_are_explained() -> None:
    check = text_check(Divergence(0, 7, " a", " the", 0.05, 0.03), Divergence(2, 3, "x", "y", 0.02, 0.04))
    assert check.verdict is Verdict.PASS and check.n == 72
    assert "2 of 72 greedy tokens of 3 prompts differ" in check.reason
    assert check.numbers["divergences"] == 2 and check.numbers["unexplained"] == 0


def test_one_wide_divergence_after_an_explained_one_fails_and_names_place_pair_and_margin() -> None:
    check = text_check(Divergence(0, 7, " a", " the", 0.05, 0.03), Divergence(1, 9, " Rome", " Oslo", 1.5, 0.2))
    assert check.verdict is Verdict.FAIL
    assert "at token 9 of prompt 2 the target says ' Oslo' for ' Rome', which the reference prefers by 1.5" in check.reason
    assert (check.measured, check.tolerance, check.numbers["unexplained"]) == (1.5, 0.4, 1)


def test_a_drift_that_every_operator_and_layer_passes_fails_at_application_level() -> None:
    """0.643 against 0.541 (sglang issue 18481), on 150 questions whose answers part as small drifts part them."""
    check, measurements = tasks_check(tasks(both=76, only_reference=20, only_target=5, neither=49), "tp1")
    assert check.verdict is Verdict.FAIL
    assert "81 of 150 right on the target, 96 in the reference" in check.reason
    assert [round(row.value, 3) for row in measurements] == [0.54, 0.64, 0.54, 0.64]
    few, _ = tasks_check(tasks(both=7, only_reference=2, only_target=1, neither=4), "tp1")
    assert few.verdict is Verdict.NOT_RUN and "too few items" in few.reason


@pytest.mark.parametrize(
    ("observed", "verdict", "said"),
    [
        (tasks(80, 2, 2, 36), Verdict.PASS, "no finding"),
        (tasks(60, 3, 14, 43), Verdict.ERROR, "puts the reference in doubt"),
        (tasks(2, 2, 0, 1), Verdict.NOT_RUN, "5 items can show no difference"),
        (tasks(25, 0, 0, 25), Verdict.NOT_RUN, "too few items to find a difference of 0.1"),
        (tasks(80, 2, 2, 36, identical=True), Verdict.NOT_RUN, "bit for bit"),
    ],
)
def test_tasks(observed: TasksObserved, verdict: Verdict, said: str) -> None:
    check = checks(Observation.TASKS, observed)["application.tasks"]
    assert (check.verdict, said in check.reason) == (verdict, True), check.reason
    assert check.numbers["harness"] == "lm-eval 0.4"


def test_likelihoods_that_are_no_numbers_are_the_targets_fault_or_the_references() -> None:
    sound = tasks(80, 0, 0, 40)
    lost = replace(sound, items=(replace(sound.items[0], target=None), *sound.items[1:]))
    assert checks(Observation.TASKS, lost)["application.tasks"].verdict is Verdict.FAIL
    doubtful = replace(sound, items=(replace(sound.items[0], reference=None, target=None), *sound.items[1:]))
    assert checks(Observation.TASKS, doubtful)["application.tasks"].verdict is Verdict.ERROR
    assert paired(lost.items) == PairedOutcomes(79, 0, 0, 40, 1)


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, (Verdict.PASS, Verdict.PASS)),
        ({"target": replace(CLOSE, rms_relative=1e-4)}, (Verdict.FAIL, Verdict.PASS)),
        ({"target": replace(CLOSE, cosine=0.99)}, (Verdict.FAIL, Verdict.PASS)),
        ({"target": replace(CLOSE, nonfinite=4)}, (Verdict.FAIL, Verdict.FAIL)),
        ({"native": replace(CLOSE, cosine=0.9)}, (Verdict.ERROR, Verdict.PASS)),
        ({"similarity_noise": None}, (Verdict.ERROR, Verdict.PASS)),
        ({"identical": True}, (Verdict.NOT_RUN, Verdict.PASS)),
        ({"exchanges": (Exchange("a", "b", "c", 1e-6),), "reversed_orders": 1}, (Verdict.PASS, Verdict.PASS)),
        ({"exchanges": (Exchange("a", "b", "c", 1e-3),), "reversed_orders": 1}, (Verdict.FAIL, Verdict.PASS)),
        ({"nearest": PairedOutcomes(14, 8, 0, 2)}, (Verdict.FAIL, Verdict.PASS)),
        ({"nearest": PairedOutcomes(23, 1, 0, 0)}, (Verdict.PASS, Verdict.PASS)),
        ({"closest": 1.0}, (Verdict.PASS, Verdict.FAIL)),
        ({"untokenized": "no tokenizer"}, (Verdict.PASS, Verdict.NOT_RUN)),
    ],
)
def test_embeddings(changed: dict[str, object], verdicts: tuple[Verdict, Verdict]) -> None:
    found = checks(Observation.ENCODING, replace(ENCODING, **changed))  # type: ignore[arg-type]
    assert (found["model.embeddings"].verdict, found["end_to_end.embedding"].verdict) == verdicts


def test_embeddings_are_timed_and_weighed() -> None:
    outcome = RunOutcome(RunEnd.COMPLETED, dump(ENCODING), "", "", 1.0, 950)
    found = judge(RunRequest(Observation.ENCODING, "cpu", degrees=Degrees()), outcome, load).measurements
    assert {row.name: row.value for row in found}["peak_memory"] == 950
    assert {"latency", "throughput", "throughput_texts", "load"} <= {row.name for row in found}


@pytest.mark.parametrize(
    ("architecture", "causal", "writes"),
    [
        ("LlamaForCausalLM", True, True), ("GPT2LMHeadModel", True, True), ("T5ForConditionalGeneration", True, True),
        ("BertModel", False, False), ("MistralModel", True, False), ("BertForMaskedLM", False, False),
        ("BertForSequenceClassification", False, False), (None, True, True), (None, False, False),
    ],
)  # fmt: skip
def test_which_models_write_text(architecture: str | None, causal: bool, writes: bool) -> None:
    assert writes_text(architecture, causal=causal) is writes
