"""The schema's migrations: found in the source tree or in the installed wheel, run under one advisory lock."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text

import dayzero
from dayzero.adapters.store.connection import open_engine, translated
from dayzero.adapters.store.readers import refresh_views, withdraw_views
from dayzero.errors import DependencyError

if TYPE_CHECKING:
    from alembic.config import Config

# alembic is imported where it is needed: every process of the group imports this module, and almost none migrates.

_LOCK = 0x6461797A  # "dayz"
_LOCK_TIMEOUT = "60s"


def migrations_folder() -> Path:
    """The folder of the migrations; DependencyError when the installation lacks it."""
    package = Path(dayzero.__file__).resolve().parent
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise DependencyError("this installation has no migrations.", remedy="Install dayzero again from a complete wheel.")


def _config() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config


def upgrade(url: str) -> None:
    """Bring the schema to the newest revision, in one transaction; two at once wait for each other.

    UnavailableError when the database does not answer or stays locked; DependencyError when it is newer than this version.
    """
    engine = open_engine(url)
    try:
        upgrade_engine(engine)
    finally:
        engine.dispose()


def upgrade_engine(engine: Engine) -> None:
    """`upgrade`, on an engine that is open."""
    from alembic import command
    from alembic.util import CommandError

    config = _config()
    with translated(), engine.begin() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        config.attributes["connection"] = connection
        try:
            if not _is_current(connection, config):
                withdraw_views(connection)
                command.upgrade(config, "head")
            refresh_views(connection)
        except CommandError as error:
            raise DependencyError(
                f"the database's schema is not one that this version knows: {error}.",
                remedy="Use the version of dayzero that made it.",
            ) from error


def _is_current(connection: Connection, config: "Config") -> bool:
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    found = MigrationContext.configure(connection).get_current_revision()
    return found is not None and found == ScriptDirectory.from_config(config).get_current_head()


def current(url: str) -> tuple[str | None, str | None]:
    """(revision of the database, newest revision known here); the first is None for an empty database."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    engine = open_engine(url)
    try:
        with translated(), engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
    finally:
        engine.dispose()
    return revision, ScriptDirectory.from_config(_config()).get_current_head()
