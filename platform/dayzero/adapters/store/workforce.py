"""Workers and their tokens."""

from datetime import timedelta

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert

from dayzero.adapters.store.access import new_token, valid_row
from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables_telling import WorkerRow
from dayzero.ports.catalog import WorkerToken
from dayzero.ports.running import Clock


class SqlWorkforce:
    """ports.catalog.Workforce on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def issue_token(self, platform: str, scope: str, valid_s: float) -> tuple[str, WorkerToken]:
        """A new token (shown once; only its sha256 is stored) and what it allows. BadInputError for a validity of nothing."""
        slug = short_name(platform, "a platform's slug")
        token, row = new_token(self._clock.now(), valid_s, "dzw", f"worker of {slug}", scope, slug)
        with transaction(self._engine) as session:
            session.add(row)
        return token, WorkerToken(row.id, platform, scope, utc(row.expires_at))

    def check_token(self, token: str) -> WorkerToken | None:
        """What the token allows, or None when it is unknown, revoked or has expired."""
        with transaction(self._engine) as session:
            row = valid_row(session, token, self._clock.now())
            return None if row is None else WorkerToken(row.id, row.platform or "", row.scope, utc(row.expires_at))

    def worker_seen(self, worker_id: str, platform: str, stack_fingerprint: str, devices: int) -> None:
        """A worker said that it lives."""
        now = self._clock.now()
        key = {"id": short_name(worker_id, "a worker's id"), "platform": short_name(platform, "a platform's slug")}
        values = {"stack_fingerprint": stack_fingerprint, "devices": devices, "seen_at": now}
        statement = insert(WorkerRow).values(**key, **values, first_seen_at=now)
        with transaction(self._engine) as session:
            session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))

    def workers_alive(self, platform: str, within_s: float) -> int:
        """How many workers of a platform were seen within so many seconds."""
        since = self._clock.now() - timedelta(seconds=within_s)
        query = select(func.count()).select_from(WorkerRow).where(WorkerRow.platform == platform, WorkerRow.seen_at >= since)
        with transaction(self._engine) as session:
            return session.execute(query).scalar_one()
