"""What others say of models on platforms."""

from collections.abc import Sequence
from typing import Protocol

from dayzero.domain.access import Viewer
from dayzero.domain.told_results import Claim, Report, ReportKind, ReportState


class Reports(Protocol):
    """Claims of others: kept, moderated, shown."""

    def tell(self, kind: ReportKind, claims: Sequence[Claim], told_by: str, state: ReportState) -> int:
        """Keep claims that are not known yet; how many were new. All of them, or none."""
        ...

    def reports(
        self,
        viewer: Viewer,
        *,
        state: ReportState | None = None,
        model: str | None = None,
        platform: str | None = None,
        limit: int = 1000,
    ) -> Sequence[Report]:
        """Reports that the viewer may see, the newest first; `model` is any of its names."""
        ...

    def judge(self, report_id: str, state: ReportState, judged_by: str, why: str) -> Report:
        """Let it be shown, or not; judging again replaces. NotFoundError."""
        ...
