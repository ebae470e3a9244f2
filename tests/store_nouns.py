"""Small releases, entries and a clock that tests of the store share."""

from datetime import UTC, datetime, timedelta

from dayzero.domain.entry import (
    CompatibilityEntry,
    Correctness,
    EntryKey,
    Freshness,
    Lifecycle,
    Performance,
)
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.verdict import Check, CheckLayer, Grade, Mode, Verdict

DAY_ZERO = datetime(2026, 3, 1, 12, tzinfo=UTC)


class SteppedClock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.time = DAY_ZERO

    def now(self) -> datetime:
        """The time it was set to."""
        return self.time

    def monotonic_s(self) -> float:
        """Seconds since it began."""
        return (self.time - DAY_ZERO).total_seconds()

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)


class OpenVault:
    """A vault that marks what it has locked, and hides nothing."""

    def lock(self, text: str) -> str:
        """The text with a mark."""
        return f"locked {text}"

    def unlock(self, locked: str) -> str:
        """The text without it."""
        return locked.removeprefix("locked ")


CONFIGURATION = RepoFile("config.json", 600, FileRole.CONFIGURATION, git_blob_id="c0")


def release(
    revision: str = "r1",
    stage: ReleaseStage = ReleaseStage.WEIGHTS,
    *,
    repo_id: str = "org/model",
    weights: str = "w1",
    hub: HubKind = HubKind.HUGGING_FACE,
    readme: str | None = None,
    published_at: datetime | None = None,
) -> Release:
    """A release; its content follows from stage and weights, and a README changes nothing."""
    files = [CONFIGURATION]
    if stage in (ReleaseStage.WEIGHTS, ReleaseStage.WEIGHTS_PARTIAL):
        files.append(RepoFile("model.safetensors", 1000, FileRole.WEIGHTS, sha256=weights))
    if readme is not None:
        files.append(RepoFile("README.md", len(readme), FileRole.OTHER, git_blob_id=readme))
    return Release(hub, repo_id, revision, stage, tuple(files), content_id_of(files), published_at=published_at)


def check(verdict: Verdict = Verdict.PASS, name: str = "generation", layer: CheckLayer = CheckLayer.END_TO_END) -> Check:
    """A check under tp1."""
    return Check(layer, name, "tp1", verdict, Grade.MEASURED, "because", measured=0.5, tolerance=1.0, n=3)


def entry(
    content_id: str,
    correctness: Correctness = Correctness.VERIFIED,
    *,
    lifecycle: Lifecycle = Lifecycle.DONE,
    model: str = "org/model",
    platform: str = "cpu",
    dtype: str = "bfloat16",
    checks: tuple[Check, ...] = (check(),),
) -> CompatibilityEntry:
    """An entry for a model on a platform."""
    key = EntryKey(model, content_id, platform, "f" * 64, "transformers", dtype, Degrees(tp=3), Mode.INFERENCE)
    return CompatibilityEntry(
        key=key,
        method="1",
        lifecycle=lifecycle,
        correctness=correctness,
        performance=Performance.MEASURED,
        freshness=Freshness.CURRENT,
        grade=Grade.MEASURED,
        reason="All required checks pass.",
        checks=checks,
    )
