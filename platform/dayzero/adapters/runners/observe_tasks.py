"""TASKS: the shipped questions through lm-evaluation-harness, answered by the native reference and by the target.

The harness makes the prompts and the scores; the models answer through `Answering`, which asks nothing of the network. The
task files are copied beside the run, for the harness reads them by relative paths.
"""

import hashlib
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.placing import device_for, fetched, on, placed
from dayzero.adapters.runners.three_ways import make_target, path_of
from dayzero.domain.observed_tasks import TaskItem, TasksObserved
from dayzero.domain.runs import RunRequest
from dayzero.errors import BlockedError, DependencyError

HARNESS = "lm-eval"
TASKS = ("dayzero_capitals", "dayzero_opposites", "dayzero_sequences", "dayzero_world")
FOLDER = "tasks"
BATCH = 32

Answers = dict[tuple[str, int], list[float]]
"""Log-likelihoods of an item's choices, by task and item."""


def observe_tasks(request: RunRequest) -> TasksObserved:
    """Every shipped question, answered by both. DependencyError without the harness, BlockedError without a tokenizer."""
    began = time.monotonic()
    loading.quiet()
    harness_version = _harness_version()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    tokenizer = loading.tokenizer_of(folder)
    if tokenizer is None:
        raise BlockedError(f"{loading.NO_TOKENIZER}, so that no question can be asked.", remedy="Fetch its tokenizer.")
    listed = _copy_tasks(Path.cwd() / FOLDER)
    device = device_for(request)
    install(request.bridges, device)
    native = loading.load_model(folder, dtype)
    patched = make_target(native, device)
    with loading.plugins_installed(patched, request):
        reference, target, prompts = _ask(Scoring(native, tokenizer, config), Scoring(patched, tokenizer, config, device))
    largest = _largest_difference(reference, target)
    return TasksObserved(
        HARNESS,
        harness_version,
        TASKS,
        listed,
        tuple(_item(key, row, reference[key], target[key]) for key, row in prompts.items()),
        dtype_name(dtype),
        f"eager, {path_of(native)}",
        f"eager, {path_of(patched)}{on(device)}",
        f"{type(tokenizer).__name__} of the checkpoint",
        largest,
        largest == 0.0,
        request.custom_operators,
        time.monotonic() - began,
    )


def _harness_version() -> str:
    try:
        return version(HARNESS)
    except PackageNotFoundError as error:
        raise DependencyError(
            "downstream tasks need lm-evaluation-harness, which is not installed.", remedy="pip install 'dayzero[tasks]'."
        ) from error


def _copy_tasks(into: Path) -> tuple[tuple[str, str], ...]:
    """The shipped task files in a folder of the run; their names and sha256."""
    with as_file(files("dayzero.adapters.runners.data").joinpath("tasks")) as shipped:
        shutil.copytree(shipped, into)
    found = sorted(path for path in into.iterdir() if path.suffix in (".yaml", ".jsonl"))
    return tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in found)


class Scoring:
    """Log-likelihoods of continuations by one model: equal inputs run once, inputs of equal length together, none padded."""

    def __init__(self, model: Any, tokenizer: Any, config: Any, device: torch.device | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.device = device or torch.device("cpu")
        self.vocabulary = int(config.get_text_config().vocab_size)

    def score(self, pairs: list[tuple[str, str]]) -> list[float]:
        """For each (context, continuation) its log-likelihood (nats); NaN where the model's is none."""
        encoded = [self._encode(*pair) for pair in pairs]
        waiting: dict[tuple[int, ...], list[int]] = {}
        for at, (context, continuation) in enumerate(encoded):
            waiting.setdefault(tuple((context + continuation)[:-1]), []).append(at)
        scores = [math.nan] * len(pairs)
        for batch in _batches(sorted(waiting, key=lambda ids: (len(ids), ids))):
            with torch.no_grad():
                logits = fetched(self.model(placed(torch.tensor(batch), self.device), use_cache=False).logits)
            for ids, row in zip(batch, logits, strict=True):
                for at in waiting[ids]:
                    scores[at] = self._likelihood(row, *encoded[at])
        return scores

    def _encode(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokens of both, split where the context's own tokens end (as the harness splits them)."""
        whole = self.tokenizer(context + continuation, add_special_tokens=True)["input_ids"]
        start = len(self.tokenizer(context, add_special_tokens=True)["input_ids"])
        start = min(max(start, 1), len(whole) - 1)
        loading.check_tokens(whole, self.vocabulary)
        return whole[:start], whole[start:]

    @staticmethod
    def _likelihood(logits: torch.Tensor, context: list[int], continuation: list[int]) -> float:
        chosen = logits[len(context) - 1 :].to(torch.float64).log_softmax(-1)
        return float(chosen.gather(-1, torch.tensor(continuation)[:, None]).sum())


def _batches(inputs: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Inputs in order of their length, cut where the length changes or a batch is full."""
    batch: list[tuple[int, ...]] = []
    for ids in inputs:
        if batch and (len(batch) == BATCH or len(ids) != len(batch[0])):
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def _ask(
    reference: Scoring, target: Scoring
) -> tuple[Answers, Answers, Mapping[tuple[str, int], tuple[str, tuple[str, ...], int]]]:
    """All tasks through the harness, which makes the requests once: likelihoods of both, and each item's prompt, choices and
    right answer as the harness made them."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    kept: tuple[Answers, Answers] = ({}, {})

    class Answering(LM):  # type: ignore[misc]
        """What the harness calls a model: it is given the reference's scores, the target's are kept beside them."""

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            """Scores; whether greedy decoding would say the same is not asked for by any task."""
            pairs = [one.args for one in requests]
            both = reference.score(pairs), target.score(pairs)
            for answers, scores in zip(kept, both, strict=True):
                for one, score in sorted(zip(requests, scores, strict=True), key=lambda row: row[0].idx):
                    answers.setdefault((one.task_name, one.doc_id), []).append(score)
            return [(score, False) for score in both[0]]

        def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
            """No shipped task asks for it."""
            raise NotImplementedError

        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            """No shipped task asks for it."""
            raise NotImplementedError

    found = lm_eval.simple_evaluate(
        model=Answering(),
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(Path.cwd() / FOLDER), include_defaults=False),
        num_fewshot=0,
        bootstrap_iters=0,
        log_samples=True,
    )
    prompts = {
        (task, int(sample["doc_id"])): (
            str(sample["arguments"][0][0]), tuple(sample["doc"]["choices"]), int(sample["target"])
        )
        for task in TASKS
        for sample in found["samples"][task]
    }  # fmt: skip
    return *kept, prompts


def _item(key: tuple[str, int], row: tuple[str, tuple[str, ...], int], reference: list[float], target: list[float]) -> TaskItem:
    prompt, choices, right = row
    chosen, margin = _choice(reference)
    by_target, target_margin = _choice(target)
    return TaskItem(key[0], key[1], prompt, choices, right, chosen, by_target, margin, target_margin)


def _choice(scores: list[float]) -> tuple[int | None, float | None]:
    """The likeliest choice and how far it leads; None where a likelihood is no number."""
    if not all(math.isfinite(score) for score in scores):
        return None, None
    best = max(range(len(scores)), key=scores.__getitem__)
    return best, scores[best] - max(score for at, score in enumerate(scores) if at != best)


def _largest_difference(reference: Answers, target: Answers) -> float | None:
    """The largest difference of one likelihood; None where one is no number."""
    gaps = [abs(left - right) for key in reference for left, right in zip(reference[key], target[key], strict=True)]
    return max(gaps) if gaps and all(math.isfinite(gap) for gap in gaps) else None
