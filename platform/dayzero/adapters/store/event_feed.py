"""Events as feeds read them: the newest, and what came after one, through a viewer's eyes."""

from collections.abc import Sequence

from sqlalchemy import Engine, func, select

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.outbox import EVENT_FIELDS
from dayzero.adapters.store.rows import event_of
from dayzero.adapters.store.tables_telling import EventRow
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import Viewer
from dayzero.domain.events import Event, Told
from dayzero.ports.running import Clock
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse

MAX_LOOKED_AT = 5000
"""Events that one question looks at, whatever its filter leaves of them."""


class SqlEventFeed:
    """ports.telling.EventFeed on PostgreSQL; only events that were fanned out have a position, and it never changes."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def newest(self, predicate: str, viewer: Viewer, limit: int) -> Sequence[Event]:
        """The newest events that match, the newest first, of the last few thousand. BadInputError for a wrong filter."""
        wanted = parse(predicate, EVENT_FIELDS)
        query = select(EventRow).where(EventRow.position.is_not(None)).order_by(EventRow.position.desc()).limit(MAX_LOOKED_AT)
        with transaction(self._engine) as session:
            sight = sight_of(session, viewer, self._clock.now())
            visible = seen_by(sight, EventRow.subject, EventRow.fields["platform"].astext)
            rows = session.execute(query.where(visible)).scalars()
            found = (event_of(row) for row in rows if matches(wanted, row.fields))
            return tuple(event for event, _ in zip(found, range(limit), strict=False))

    def after(self, position: int, predicate: str, viewer: Viewer, limit: int) -> Told:
        """What matches of the events after a position, in order, and the position up to which was looked."""
        wanted = parse(predicate, EVENT_FIELDS)
        query = select(EventRow).where(EventRow.position > position).order_by(EventRow.position).limit(limit)
        with transaction(self._engine) as session:
            sight = sight_of(session, viewer, self._clock.now())
            rows = session.execute(query).scalars().all()
            events = tuple(
                event_of(row)
                for row in rows
                if sight.sees(row.subject, row.fields.get("platform")) and matches(wanted, row.fields)
            )
            return Told(events, rows[-1].position or position if rows else position)

    def position_of(self, event_id: str) -> int | None:
        """The position of an event; None when there is no such event."""
        with transaction(self._engine) as session:
            return session.execute(select(EventRow.position).where(EventRow.id == event_id)).scalar_one_or_none()

    def last(self) -> int:
        """The position of the newest event; 0 when there is none."""
        with transaction(self._engine) as session:
            return session.execute(select(func.max(EventRow.position))).scalar_one() or 0
