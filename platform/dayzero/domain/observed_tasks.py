"""What reference and target answered to the questions of downstream tasks, item by item."""

from dataclasses import dataclass

from dayzero.domain.evaluation import PairedOutcomes


@dataclass(frozen=True, slots=True)
class TaskItem:
    """One question: its prompt as the model read it, the choices, the right one, and what each run chose.

    A run chooses the likeliest continuation; `*_margin` is how far it preferred that to its second choice (nats). None: a
    likelihood was no number.
    """

    task: str
    item: int
    prompt: str
    choices: tuple[str, ...]
    right: int
    reference: int | None
    target: int | None
    reference_margin: float | None = None
    target_margin: float | None = None


@dataclass(frozen=True, slots=True)
class TasksObserved:
    """Every item of the tasks, answered by the native reference and by the target.

    `files` are the task files with their sha256, so that equal names are equal questions. `largest_difference` is the largest
    difference of one continuation's log-likelihood between the two runs (nats); `identical`: there is none at all.
    """

    harness: str
    harness_version: str
    tasks: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    items: tuple[TaskItem, ...]
    native_dtype: str
    reference_path: str
    target_path: str
    tokenizer: str
    largest_difference: float | None
    identical: bool
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0


def paired(items: tuple[TaskItem, ...]) -> PairedOutcomes:
    """Who was right how often; items without an answer of both are counted beside."""
    answered = [item for item in items if item.reference is not None and item.target is not None]
    right = [(item.reference == item.right, item.target == item.right) for item in answered]
    return PairedOutcomes(
        both=right.count((True, True)),
        only_reference=right.count((True, False)),
        only_target=right.count((False, True)),
        neither=right.count((False, False)),
        unanswered=len(items) - len(answered),
    )
