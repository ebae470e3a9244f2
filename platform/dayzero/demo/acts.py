"""The acts of the demo, each with the outcome that is announced before it starts."""

from dataclasses import dataclass
from pathlib import Path

from dayzero.domain.entry import CompatibilityEntry, Correctness


@dataclass(frozen=True, slots=True)
class Act:
    """One model of the demo: its repository, the folder it was made in, and what is announced for it."""

    repo_id: str
    folder: str
    announced: Correctness
    story: str
    configuration_first: bool = True


PLANTED_PATTERN = "demo/planted-*"

ACTS = (
    Act(
        "demo/deepseek-v3-tiny",
        "deepseek-tiny",
        Correctness.VERIFIED,
        "DeepSeek-V3-shaped: latent attention, mixture of experts, several BF16 shards, made from a fixed seed",
    ),
    Act(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "smollm2",
        Correctness.VERIFIED,
        "a real pretrained model; 9 heads, so tp 2 must be rejected and a plan of three ranks taken",
    ),
    Act(
        "demo/planted-fault",
        "llama-tiny",
        Correctness.FAILING,
        "its target runs with a deliberately wrong operator in one layer, which must be named",
        configuration_first=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an act, and every announced thing that did not happen."""

    act: Act
    entry: CompatibilityEntry | None
    broken_promises: tuple[str, ...]


def judge_act(act: Act, entry: CompatibilityEntry | None, planted_layer: int, notified: bool) -> Outcome:
    """Hold the entry against what was announced."""
    broken: list[str] = []
    if entry is None:
        broken.append("no entry was recorded")
    elif entry.correctness is not act.announced:
        broken.append(f"announced {act.announced.value}, got {entry.correctness.value}: {entry.reason}")
    if not notified:
        broken.append("the subscriber got no completion")
    if entry is not None and act.announced is Correctness.FAILING:
        named = [culprit for culprit in entry.culprits if culprit.layer_index == planted_layer and culprit.operator]
        if not named:
            broken.append(f"the wrong operator in layer {planted_layer} was not named")
        strangers = {culprit.layer_index for culprit in entry.culprits} - {planted_layer}
        if strangers:
            broken.append(f"innocent layers were named: {sorted(str(index) for index in strangers)}")
    return Outcome(act, entry, tuple(broken))


def models_are_made(models_dir: Path) -> bool:
    """Whether every act's model folder is there."""
    return all((models_dir / act.folder / "config.json").is_file() for act in ACTS)
