"""What a step shows in the Prefect UI: a headline, a table, and bytes on their way."""

import logging
import re
import time
from dataclasses import dataclass
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

from dayzero.adapters.prefect.client import prefect_client
from dayzero.domain.canonical import canonical_json
from dayzero.domain.reports import StepReport
from dayzero.errors import DependencyError
from dayzero.stages.transfer.estimating import shown_bytes, shown_duration

UPDATE_EVERY_S = 1.0
KEY_CHARACTERS = re.compile(r"[^a-z0-9]+")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The flow run and task run that artifacts hang on; `subject` (model and platform) goes into their keys."""

    api_url: str
    flow_run_id: UUID | None
    task_run_id: UUID | None
    subject: str


def artifact_key(*parts: str) -> str:
    """Lower-case words joined by dashes, as Prefect demands."""
    return "-".join(word for part in parts if (word := KEY_CHARACTERS.sub("-", part.lower()).strip("-")))


def show_report(place: RunPlace, report: StepReport) -> None:
    """Publish a step's headline, notes and table. The UI is no truth: when Prefect does not answer, that is logged only."""
    headline = f"**{report.headline}**" + ("  \n_re-used: found by what it was computed from_" if report.reused else "")
    text = "\n".join([headline, "", *(f"- {note}" for note in report.notes)]).strip()
    try:
        with prefect_client(place.api_url) as client:
            _create(client, place, artifact_key(place.subject, report.step), "markdown", text, report.headline)
            if report.table:
                rows = canonical_json([dict(row) for row in report.table]).decode()
                _create(client, place, artifact_key(place.subject, report.step, "table"), "table", rows, report.headline)
    except DependencyError as error:
        logger.warning("the artifacts of %s are not shown: %s", report.step, error)


class ByteProgress:
    """A progress artifact that tells bytes and time left; callable as dayzero.ports.hub.Progress, from any thread."""

    def __init__(self, place: RunPlace, what: str) -> None:
        self._place = place
        self._what = what
        self._artifact: UUID | None = None
        self._started_s = time.monotonic()
        self._shown_s = 0.0

    def __call__(self, done: int, total: int | None) -> None:
        """Show it, at most once a second and at the end."""
        now_s = time.monotonic()
        complete = total is not None and done >= total
        if now_s - self._shown_s < UPDATE_EVERY_S and not complete:
            return
        self._shown_s = now_s
        text = describe_progress(self._what, done, total, now_s - self._started_s)
        share = min(100.0 * done / total, 100.0) if total else 0.0
        try:
            with prefect_client(self._place.api_url) as client:
                if self._artifact is None:
                    key = artifact_key(self._place.subject, self._what, "progress")
                    self._artifact = _create(client, self._place, key, "progress", share, text)
                else:
                    client.update_artifact(self._artifact, ArtifactUpdate(data=share, description=text))
        except DependencyError as error:
            logger.warning("progress of %s is not shown: %s", self._what, error)


def describe_progress(what: str, done_bytes: int, total_bytes: int | None, spent_s: float) -> str:
    """Bytes done and in all, the rate, and the time left at that rate."""
    rate = done_bytes / spent_s if spent_s > 0 else 0.0
    if total_bytes is None:
        return f"{what}: {shown_bytes(done_bytes)}, {shown_bytes(rate)}/s"
    left = f"{shown_duration((total_bytes - done_bytes) / rate)} left" if rate > 0 else "time left unknown"
    return f"{what}: {shown_bytes(done_bytes)} of {shown_bytes(total_bytes)}, {shown_bytes(rate)}/s, {left}"


def _create(client: SyncPrefectClient, place: RunPlace, key: str, kind: str, data: object, description: str) -> UUID:
    artifact = ArtifactCreate(
        key=key,
        type=kind,
        data=data,
        description=description,
        flow_run_id=place.flow_run_id,
        task_run_id=place.task_run_id,
    )
    return client.create_artifact(artifact).id
