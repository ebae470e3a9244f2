"""Alembic's environment: runs on the connection that dayzero.adapters.store.migrate hands over."""

from alembic import context

from dayzero.adapters.store import tables_access, tables_ageing, tables_failures, tables_reports, tables_sessions  # noqa: F401  # every table is known by its import
from dayzero.adapters.store.column_types import CleanJson, CleanText
from dayzero.adapters.store.tables import Base


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
    target_metadata=Base.metadata,
    render_item=render_item,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
