"""Alembic's environment: runs on the connection that dayzero.adapters.store.migrate hands over."""

from alembic import context

from dayzero.adapters.store import tables_access
from dayzero.adapters.store.column_types import CleanJson, CleanText


def render_item(kind, item, autogen_context):  # type: ignore[no-untyped-def]
    """Write our column types as the plain ones they are stored as."""
    if kind == "type" and isinstance(item, CleanJson):
        autogen_context.imports.add("from sqlalchemy.dialects import postgresql")
        return "postgresql.JSONB()"
    if kind == "type" and isinstance(item, CleanText):
        return "sa.Text()"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables_access.EmbargoRow.metadata,
    render_item=render_item,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
