"""What to do next where there is little to show: a sentence and commands, from how much there is of everything."""

from dataclasses import dataclass

from dayzero.domain.listing import Tally


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do: in words, as a command, or at an address."""

    text: str
    command: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class NextSteps:
    """Where things stand, and what to do next."""

    title: str
    steps: tuple[Step, ...]


_WATCH = Step("Watch a hub: what appears there is taken by itself.", "dayzero watch add hf --author ORGANISATION")
_ADAPT = Step("Or run one model through, here and now.", "dayzero adapt hf:ORGANISATION/MODEL --platform cpu")
_WHY = Step("See what was listed and not taken, and why.", address="/releases?show=ignored")


def next_steps(tally: Tally) -> NextSteps | None:
    """What a reader should do next; None once there is an entry to show."""
    if tally.entries:
        return None
    going = tally.runs.get("running", 0) + tally.runs.get("requested", 0)
    ended = tally.runs.get("failed", 0) + tally.runs.get("blocked", 0)
    if ended:
        return NextSteps(
            f"{ended} of the adaptations failed or wait for you, and no entry stands yet.",
            (
                Step("Each says why it stands so.", address="/runs?state=failed"),
                Step("Blocked ones say what they wait for.", address="/runs?state=blocked"),
                Step("Once the cause is gone, start it again.", "dayzero run retry ID"),
            ),
        )
    if going:
        return NextSteps(
            f"{going} adaptations are under way; their entries appear here as they end.",
            (
                Step("Watch them.", address="/runs"),
                Step("If nothing moves, see whether a worker serves the platform.", "dayzero status"),
            ),
        )
    if tally.releases:
        return NextSteps(
            "Releases were taken, but nothing was asked to run.",
            (_ADAPT, Step("Or name platforms for what a source brings.", "dayzero watch add hf --platform cpu")),
        )
    if tally.sources:
        return NextSteps("A source is watched, and nothing on it was taken yet.", (_WHY, _ADAPT))
    return NextSteps("Nothing is watched yet.", (_WATCH, _ADAPT))
