"""Readers of the database: a role that sees the documented views and nothing else, never what is under embargo."""

import re
import secrets

from sqlalchemy import Connection, make_url, text

from dayzero.adapters.store.connection import open_engine, translated
from dayzero.errors import BadInputError

SCHEMA = "reading"
GROUP = "dayzero_reader"
SHOWN = ("compatibility_current", "compatibility_rollup", "compatibility_versions", "day_zero_clock")
"""The documented views, under the same names in the readers' schema."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_PASSWORD_BYTES = 24
_VIEW = """
CREATE OR REPLACE VIEW {schema}.{view} AS
SELECT v.* FROM public.{view} v
WHERE NOT EXISTS (
    SELECT 1 FROM public.embargoes e
    WHERE e.ended_at IS NULL AND e.until > now()
      AND (e.platform IS NULL OR e.platform = v.platform)
      AND (e.model IS NULL OR e.model = v.model OR e.model IN (
          SELECT a.alias FROM public.model_aliases a JOIN public.models m ON m.id = a.model_id WHERE m.name = v.model)))
"""


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
            _make_views(connection)
            _make_role(connection, role, password)
    finally:
        engine.dispose()
    return make_url(url).set(drivername="postgresql", username=role, password=password).render_as_string(hide_password=False)


def _make_views(connection: Connection) -> None:
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    for view in SHOWN:
        connection.execute(text(_VIEW.format(schema=SCHEMA, view=view)))
    if not _exists(connection, GROUP):
        connection.execute(text(f"CREATE ROLE {GROUP} NOLOGIN"))
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
