"""Application level in child processes: texts, embeddings and tasks, and what ends as a reason instead."""

import json
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.demo_models.tiny import VOCABULARY, byte_tokenizer
from dayzero.domain.observations import GenerationObserved
from dayzero.domain.observed_encoding import EncodingObserved
from dayzero.domain.observed_tasks import TasksObserved
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.judging.checks import judge
from observing import LIMITS, completed

pytestmark = pytest.mark.torch
HARNESS = pytest.mark.skipif(find_spec("lm_eval") is None, reason="needs the extra tasks (lm-eval)")
ONE_PATH = {"compile": False, "tokens": 32}


@pytest.fixture(scope="module")
def models(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder, plain = tmp_path_factory.mktemp("models"), models["llama-tiny"]
    bare = shutil.copytree(plain, folder / "bare", ignore=shutil.ignore_patterns("tokenizer*", "special_tokens*"))
    return {"llama-tiny": plain, "bare": bare, "encoder": write_encoder(folder / "encoder")}


def write_encoder(folder: Path, *, hidden: int = 64) -> Path:
    """A small BERT with weights that matter, in float32, and a tokenizer of bytes."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=256, hidden_act="silu",
    )  # fmt: skip
    model = BertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 1.0 if "embeddings" in name else 1.5 * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def checks(request: RunRequest, outcome: RunOutcome) -> dict[str, Check]:
    return {check.check: check for check in judge(request, outcome, load, LIMITS).checks}


def ran(runner: SubprocessRunner, request: RunRequest) -> tuple[RunOutcome, dict[str, Check]]:
    outcome = completed(runner, request)
    return outcome, checks(request, outcome)


def test_every_position_of_every_prompt_is_compared(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    request = RunRequest(Observation.GENERATION, "cpu", str(models["llama-tiny"]), options={"new_tokens": 6})
    outcome, found = ran(runner, request)
    observed = load(GenerationObserved, outcome.document)
    assert observed.prompts == 3 and observed.compared_tokens > observed.new_tokens
    assert found["end_to_end.reference_text"].n == observed.compared_tokens
    assert found["end_to_end.reference_text"].verdict is Verdict.PASS, found["end_to_end.reference_text"].reason


def test_a_planted_fault_parts_the_texts_at_a_wide_margin(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    request = RunRequest(
        Observation.GENERATION, "cpu", str(models["llama-tiny"]), custom_operators=("planted-fault:seed=3:scale=1.5",),
        options={"new_tokens": 12},
    )  # fmt: skip
    _, found = ran(runner, request)
    check = found["end_to_end.reference_text"]
    assert check.verdict is Verdict.FAIL and "which the reference prefers by" in check.reason
    assert check.measured is not None and check.tolerance is not None and check.measured > check.tolerance


def test_without_a_tokenizer_text_to_text_is_not_run_and_tensors_are_still_checked(
    models: Mapping[str, Path], runner: SubprocessRunner
) -> None:
    folder = str(models["bare"])
    _, found = ran(runner, RunRequest(Observation.GENERATION, "cpu", folder, options={"new_tokens": 4}))
    assert found["end_to_end.generation"].verdict is Verdict.NOT_RUN
    assert "no tokenizer" in found["end_to_end.generation"].reason
    assert found["end_to_end.reference_text"].verdict is Verdict.PASS
    _, layers = ran(runner, RunRequest(Observation.LAYERS, "cpu", folder, options=ONE_PATH))
    assert layers["layers.three_way"].verdict is Verdict.PASS
    request = RunRequest(Observation.TASKS, "cpu", folder)
    assert checks(request, runner.run(request, LIMITS))["application.tasks"].verdict is Verdict.NOT_RUN


@pytest.mark.parametrize("observation", [Observation.GENERATION, Observation.PERPLEXITY, Observation.LAYERS])
def test_a_tokenizer_of_another_model_ends_every_check_with_the_reason(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path, observation: Observation
) -> None:
    folder = shutil.copytree(models["llama-tiny"], tmp_path / "model")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: number + 1000 for word, number in tokenizer["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    request = RunRequest(observation, "cpu", str(folder), options=ONE_PATH)
    outcome = runner.run(request, LIMITS)
    assert outcome.end is RunEnd.REFUSED and "do not fit a vocabulary of 264" in outcome.reason
    assert {check.verdict for check in checks(request, outcome).values()} == {Verdict.ERROR}


def test_a_broken_tokenizer_is_one_that_cannot_be_read(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path
) -> None:
    folder = shutil.copytree(models["llama-tiny"], tmp_path / "model")
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "none"}}')
    _, found = ran(runner, RunRequest(Observation.GENERATION, "cpu", str(folder), options={"new_tokens": 3}))
    assert found["end_to_end.generation"].verdict is Verdict.NOT_RUN
    assert "no tokenizer that can be read" in found["end_to_end.generation"].reason


def test_an_encoder_goes_through_its_layers_and_gives_embeddings(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    folder = str(models["encoder"])
    for observation, name in ((Observation.OPERATORS, "operators.float64"), (Observation.LAYERS, "layers.three_way")):
        _, found = ran(runner, RunRequest(observation, "cpu", folder, dtype="float32", options=ONE_PATH))
        assert found[name].verdict is Verdict.PASS, found[name].reason
    outcome, found = ran(runner, RunRequest(Observation.ENCODING, "cpu", folder, dtype="float32"))
    observed = load(EncodingObserved, outcome.document)
    assert (observed.texts, observed.width, observed.nearest.n) == (48, 64, 24)
    assert [check.verdict for check in found.values()] == [Verdict.PASS] * 3, [check.reason for check in found.values()]


def test_a_fault_in_an_encoder_fails_its_embeddings(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    request = RunRequest(
        Observation.ENCODING, "cpu", str(models["encoder"]), dtype="float32", custom_operators=("planted-fault:seed=3",)
    )
    _, found = ran(runner, request)
    assert found["model.embeddings"].verdict is Verdict.FAIL, found["model.embeddings"].reason


@HARNESS
def test_tasks_are_answered_item_by_item_with_the_network_closed(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    outcome, found = ran(runner, RunRequest(Observation.TASKS, "cpu", str(models["llama-tiny"])))
    observed = load(TasksObserved, outcome.document)
    assert len(observed.items) == 120 and observed.harness_version
    assert observed.items[0].prompt == "The capital of France is" and observed.items[0].choices[0] == "Paris"
    assert {len(digest) for _, digest in observed.files} == {64} and len(observed.files) == 8
    assert not observed.identical and found["application.tasks"].verdict is Verdict.PASS, found["application.tasks"].reason
    assert "network: closed" in outcome.log_tail
