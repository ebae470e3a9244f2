"""The one rule of what a viewer sees, for every query of the store: build a Sight, and put `seen_by` into the WHERE."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, not_, select, true
from sqlalchemy.orm import Session

from dayzero.adapters.store.models import named
from dayzero.adapters.store.tables import ModelAliasRow
from dayzero.adapters.store.tables_access import EmbargoRow, EmbargoTokenRow
from dayzero.domain.access import Hidden, Sight, Viewer


def sight_of(session: Session, viewer: Viewer, now: datetime) -> Sight:
    """What embargoes in force hide from the viewer; nothing from an operator."""
    if viewer.sees_all:
        return Sight()
    query = select(EmbargoRow).where(EmbargoRow.ended_at.is_(None), EmbargoRow.until > now)
    if viewer.token_id is not None:
        lets_in = select(EmbargoTokenRow.embargo_id).where(EmbargoTokenRow.token_id == viewer.token_id)
        query = query.where(EmbargoRow.id.not_in(lets_in))
    rows = session.execute(query.order_by(EmbargoRow.seq)).scalars()
    return Sight(tuple(Hidden(None if row.model is None else names_of(session, row.model), row.platform) for row in rows))


def seen_by(
    sight: Sight, model: SQLColumnExpression[str], platform: SQLColumnExpression[Any] | None = None
) -> ColumnElement[bool]:
    """The condition on rows about a model and a platform; a row whose platform is NULL is about the model alone."""
    conditions = [_outside(one, model, platform) for one in sight.hidden]
    return and_(*conditions) if conditions else true()


def _outside(hidden: Hidden, model: SQLColumnExpression[str], platform: SQLColumnExpression[Any] | None) -> ColumnElement[bool]:
    inside: list[ColumnElement[bool]] = []
    if hidden.models is not None:
        inside.append(model.is_not(None) & model.in_(sorted(hidden.models)))
    if hidden.platform is not None:
        if platform is None:
            return true()
        inside.append(platform.is_not_distinct_from(hidden.platform))
    return not_(and_(*inside))


def names_of(session: Session, model: str) -> frozenset[str]:
    """Every name that the model goes by; the one that was written when nobody has seen it yet."""
    known = named(session, model)
    if known is None:
        return frozenset({model})
    aliases = session.execute(select(ModelAliasRow.alias).where(ModelAliasRow.model_id == known.id)).scalars()
    return frozenset({model, known.name, *aliases})
