"""Embargoes in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import maybe_utc, utc
from dayzero.adapters.store.tables_access import EmbargoRow, EmbargoTokenRow
from dayzero.adapters.store.tables_telling import TokenRow
from dayzero.adapters.store.visibility import sight_of
from dayzero.domain.access import Embargo, Sight, Viewer
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock


class SqlEmbargoes:
    """ports.access.Embargoes on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def place(self, model: str | None, platform: str | None, until: datetime, tokens: Sequence[str], reason: str) -> Embargo:
        """Hide it from all but these tokens. BadInputError: nothing, or in the past. NotFoundError: no such token."""
        now = self._clock.now()
        if model is None and platform is None:
            raise BadInputError("an embargo of nothing in particular.", remedy="Name a model, a platform, or both.")
        if until <= now:
            raise BadInputError(f"an embargo until {until:%Y-%m-%d %H:%M} UTC is over.", remedy="Name a moment to come.")
        row = EmbargoRow(
            id=uuid4().hex,
            model=None if model is None else short_name(model, "a model's name"),
            platform=None if platform is None else short_name(platform, "a platform's slug"),
            until=until, reason=short_name(reason.strip(), "an embargo's reason"), created_at=now, ended_at=None,
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.add(row)
            session.flush()
            for token_id in dict.fromkeys(tokens):
                if session.get(TokenRow, token_id) is None:
                    raise NotFoundError(f"there is no token {token_id[:80]}.", remedy="See `dayzero token ls`.")
                session.add(EmbargoTokenRow(embargo_id=row.id, token_id=token_id))
            session.flush()
            return _noun(session, row)

    def lift(self, embargo_id: str) -> Embargo:
        """End it now, once. NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(EmbargoRow, embargo_id)
            if row is None:
                raise NotFoundError(f"there is no embargo {embargo_id[:80]}.", remedy="See `dayzero embargo ls`.")
            row.ended_at = row.ended_at or self._clock.now()
            session.flush()
            return _noun(session, row)

    def embargoes(self) -> Sequence[Embargo]:
        """Every embargo, the oldest first, also those that are over."""
        with transaction(self._engine) as session:
            rows = session.execute(select(EmbargoRow).order_by(EmbargoRow.seq)).scalars().all()
            return tuple(_noun(session, row) for row in rows)

    def sight(self, viewer: Viewer) -> Sight:
        """What that viewer does not see now."""
        with transaction(self._engine) as session:
            return sight_of(session, viewer, self._clock.now())


def _noun(session: Session, row: EmbargoRow) -> Embargo:
    query = select(EmbargoTokenRow.token_id).where(EmbargoTokenRow.embargo_id == row.id).order_by(EmbargoTokenRow.token_id)
    tokens = tuple(session.execute(query).scalars())
    return Embargo(
        row.id, row.model, row.platform, utc(row.until), tokens, row.reason, utc(row.created_at), maybe_utc(row.ended_at)
    )  # fmt: skip
