"""What others say, in PostgreSQL."""

from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy import Engine, select
from sqlalchemy.dialects.postgresql import insert

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import maybe_utc, noun_of, utc
from dayzero.adapters.store.tables_reports import ReportRow
from dayzero.adapters.store.visibility import names_of, seen_by, sight_of
from dayzero.domain.access import Viewer
from dayzero.domain.canonical import digest, plain
from dayzero.domain.told_results import Claim, Report, ReportKind, ReportState
from dayzero.errors import NotFoundError
from dayzero.ports.running import Clock

_AT_ONCE = 500


class SqlReports:
    """ports.reports.Reports on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def tell(self, kind: ReportKind, claims: Sequence[Claim], told_by: str, state: ReportState) -> int:
        """Keep claims that are not known yet; how many were new. All of them, or none."""
        now = self._clock.now()
        rows = [
            {
                "id": uuid4().hex, "digest": digest([kind.value, plain(claim)]), "kind": kind.value,
                "model": short_name(claim.model, "a model's name"), "platform": short_name(claim.platform, "a platform's slug"),
                "claim": plain(claim), "state": state.value, "told_by": told_by, "created_at": now,
            }
            for claim in claims
        ]  # fmt: skip
        made = 0
        with transaction(self._engine) as session:
            for begin in range(0, len(rows), _AT_ONCE):
                new = insert(ReportRow).values(rows[begin : begin + _AT_ONCE]).on_conflict_do_nothing()
                made += len(session.execute(new.returning(ReportRow.id)).all())
        return made

    def reports(
        self, viewer: Viewer, *, state: ReportState | None = None, model: str | None = None, platform: str | None = None,
        limit: int = 1000,
    ) -> Sequence[Report]:  # fmt: skip
        """Reports that the viewer may see, the newest first; `model` is any of its names."""
        query = select(ReportRow).order_by(ReportRow.seq.desc()).limit(limit)
        for column, wanted in ((ReportRow.state, state), (ReportRow.platform, platform)):
            if wanted is not None:
                query = query.where(column == str(wanted))
        with transaction(self._engine) as session:
            if model is not None:
                query = query.where(ReportRow.model.in_(sorted(names_of(session, model))))
            sight = sight_of(session, viewer, self._clock.now())
            rows = session.execute(query.where(seen_by(sight, ReportRow.model, ReportRow.platform))).scalars()
            return tuple(_noun(row) for row in rows)

    def judge(self, report_id: str, state: ReportState, judged_by: str, why: str) -> Report:
        """Let it be shown, or not; judging again replaces. NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(ReportRow, report_id)
            if row is None:
                raise NotFoundError(f"there is no report {report_id[:80]}.", remedy="See `dayzero claim ls --all`.")
            row.state, row.judged_by, row.judged_at, row.why = state.value, judged_by, self._clock.now(), why or None
            session.flush()
            return _noun(row)


def _noun(row: ReportRow) -> Report:
    return Report(
        row.id, ReportKind(row.kind), noun_of(Claim, row.claim), ReportState(row.state), row.told_by, utc(row.created_at),
        row.judged_by, maybe_utc(row.judged_at), row.why,
    )  # fmt: skip
