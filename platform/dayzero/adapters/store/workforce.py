"""Workers and their tokens."""

import hashlib
import secrets
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables_telling import TokenRow, WorkerRow
from dayzero.errors import BadInputError
from dayzero.ports.catalog import WorkerToken
from dayzero.ports.running import Clock

_TOKEN_BYTES = 32


class SqlWorkforce:
    """ports.catalog.Workforce on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def issue_token(self, platform: str, scope: str, valid_s: float) -> tuple[str, WorkerToken]:
        """A new token (shown once; only its sha256 is stored) and what it allows. BadInputError for a validity of nothing."""
        if not valid_s > 0:
            raise BadInputError(f"a token that is valid for {valid_s} s is of no use.", remedy="Give a validity above 0 s.")
        now = self._clock.now()
        try:
            expires_at = now + timedelta(seconds=valid_s)
        except OverflowError as error:
            raise BadInputError(f"a validity of {valid_s} s goes beyond the calendar.") from error
        token = f"dzw_{secrets.token_urlsafe(_TOKEN_BYTES)}"
        row = TokenRow(
            id=str(uuid4()), sha256=_sha256(token), platform=short_name(platform, "a platform's slug"),
            scope=short_name(scope, "a scope"), created_at=now, expires_at=expires_at,
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.add(row)
        return token, WorkerToken(row.id, platform, scope, expires_at)

    def check_token(self, token: str) -> WorkerToken | None:
        """What the token allows, or None when it is unknown, revoked or has expired."""
        query = select(TokenRow).where(TokenRow.sha256 == _sha256(token), TokenRow.revoked.is_(False))
        with transaction(self._engine) as session:
            row = session.execute(query).scalar_one_or_none()
        if row is None or utc(row.expires_at) <= self._clock.now():
            return None
        return WorkerToken(row.id, row.platform, row.scope, utc(row.expires_at))

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


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
