"""Readers of the database: a role that sees the documented views and nothing else, never what is under embargo."""

import hashlib
import re
import secrets

from sqlalchemy import Connection, make_url, text

from dayzero.adapters.store import views
from dayzero.adapters.store.connection import open_engine, translated
from dayzero.domain.columns import (
    CLOCK_COLUMNS,
    COMPATIBILITY_COLUMNS,
    FEATURE_COLUMNS,
    LAYER_COLUMNS,
    ROLLUP_COLUMNS,
    Column,
)
from dayzero.errors import BadInputError

SCHEMA = "reading"
GROUP = "dayzero_reader"
SHOWN: dict[str, tuple[Column, ...]] = {
    "compatibility_current": COMPATIBILITY_COLUMNS,
    "compatibility_rollup": ROLLUP_COLUMNS,
    "compatibility_versions": COMPATIBILITY_COLUMNS,
    "compatibility_layers": LAYER_COLUMNS,
    "compatibility_features": FEATURE_COLUMNS,
    "day_zero_clock": CLOCK_COLUMNS,
}
"""The documented views about a model on a platform, under the same names in the readers' schema."""

LEAGUE = "day_zero_league"
EVENTS = "events"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_PASSWORD_BYTES = 24

# A barrier: without it a condition of the reader's may run before ours, and say in its error what it saw.
_VIEW = """
CREATE VIEW {schema}.{view} WITH (security_barrier) AS
WITH hidden AS MATERIALIZED (
    SELECT e.platform, named.model
    FROM public.embargoes e
    CROSS JOIN LATERAL (
        SELECT e.model AS model
        UNION SELECT m.name FROM public.models m WHERE m.id IN ({ids})
        UNION SELECT a.alias FROM public.model_aliases a WHERE a.model_id IN ({ids})
    ) named
    WHERE e.ended_at IS NULL AND e.until > now()
)
SELECT {columns}
FROM public.{table} v
WHERE {condition} AND NOT EXISTS (
    SELECT 1 FROM hidden h
    WHERE (h.model IS NULL OR h.model = {model}) AND (h.platform IS NULL OR h.platform = {platform}))
"""
_IDS = (
    "SELECT k.id FROM public.models k WHERE k.name = e.model "
    "UNION SELECT o.model_id FROM public.model_aliases o WHERE o.alias = e.model"
)
_EVENT_COLUMNS = "v.id AS event_id, v.kind AS event, v.subject, v.occurred_at, v.fields AS data"


def add_reader(url: str, name: str) -> str:
    """A login that reads the views; its URL, with the password that is shown this once. BadInputError: not a plain name.

    Asked again of a known name, it gets a new password.
    """
    if not _NAME.fullmatch(name):
        raise BadInputError(f"{name[:40]!r} is no name for a reader.", remedy="Use small letters, digits and underscores.")
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    role = f"reader_{name}"
    engine = open_engine(url)
    try:
        with translated(), engine.begin() as connection:
            if not _exists(connection, GROUP):
                connection.execute(text(f"CREATE ROLE {GROUP} NOLOGIN"))
            _make_views(connection)
            _make_role(connection, role, password)
    finally:
        engine.dispose()
    return make_url(url).set(drivername="postgresql", username=role, password=password).render_as_string(hide_password=False)


def refresh_views(connection: Connection) -> None:
    """Make the readers' views as this version shows them, where there are readers and the views are of another version."""
    # One question in the usual case: every process of the control plane asks it when it starts.
    asked = text("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = :name")
    found = connection.execute(asked, {"name": SCHEMA}).one_or_none()
    if found is not None and found[0] != _stamp():
        _make_views(connection)


def withdraw_views(connection: Connection) -> None:
    """Take the readers' views away, so that what they rest on can be changed; `refresh_views` brings them back."""
    if connection.execute(text("SELECT to_regnamespace(:name)"), {"name": SCHEMA}).scalar() is None:
        return
    for view in (EVENTS, LEAGUE, *SHOWN):
        connection.execute(text(f"DROP VIEW IF EXISTS {SCHEMA}.{view}"))
    connection.execute(text(f"COMMENT ON SCHEMA {SCHEMA} IS NULL"))


def _statements() -> tuple[str, ...]:
    made = [
        _view(view, view, ", ".join(f'v."{column.name}"' for column in columns), "v.model", "v.platform")
        for view, columns in SHOWN.items()
    ]
    clock = f"FROM {SCHEMA}.day_zero_clock"
    league = views.LEAGUE.replace(f"VIEW {LEAGUE} AS", f"VIEW {SCHEMA}.{LEAGUE} WITH (security_barrier) AS")
    events = _view(EVENTS, "outbox", _EVENT_COLUMNS, "v.subject", "v.fields ->> 'platform'", "v.position IS NOT NULL")
    return (*made, league.replace("FROM day_zero_clock", clock), events)


def _view(view: str, table: str, columns: str, model: str, platform: str, condition: str = "true") -> str:
    return _VIEW.format(
        schema=SCHEMA, view=view, table=table, columns=columns, model=model, platform=platform, condition=condition, ids=_IDS
    )


def _stamp() -> str:
    return hashlib.sha256("".join(_statements()).encode()).hexdigest()


def _make_views(connection: Connection) -> None:
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    withdraw_views(connection)
    for statement in _statements():
        connection.execute(text(statement))
    connection.execute(text(f"COMMENT ON SCHEMA {SCHEMA} IS '{_stamp()}'"))
    # A database that was restored elsewhere has the schema and not yet the roles, which belong to the server.
    if _exists(connection, GROUP):
        connection.execute(text(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {GROUP}"))
        connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {GROUP}"))


def _make_role(connection: Connection, role: str, password: str) -> None:
    # The name was checked and the password is our own: neither can hold a quotation mark.
    verb = "ALTER" if _exists(connection, role) else "CREATE"
    connection.execute(text(f"{verb} ROLE {role} LOGIN PASSWORD '{password}' CONNECTION LIMIT 10"))
    connection.execute(text(f"GRANT {GROUP} TO {role}"))
    for setting in (
        f"search_path = {SCHEMA}",
        "default_transaction_read_only = on",
        "statement_timeout = '60s'",
        "timezone = 'UTC'",
    ):
        connection.execute(text(f"ALTER ROLE {role} SET {setting}"))


def _exists(connection: Connection, role: str) -> bool:
    return connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}).scalar() is not None
