"""Engines and transactions whose failures speak to the operator."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, TimeoutError
from sqlalchemy.orm import Session

from dayzero.errors import BadInputError, DayzeroError, DependencyError, UnavailableError

_CONNECT_TIMEOUT_S = 5
_BUSY = (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure)
_CONNECTIONS = 15
"""Kept once they are open: beyond them a burst would open and close a server process for every question."""

_LOCK_TIMEOUT_MS = 15_000
_READ_TIMEOUT_MS = 5_000
_DOWN = "Is PostgreSQL running? `dayzero up` starts the embedded one; else check DAYZERO_DATABASE_URL."


def open_engine(url: str, *, reading: bool = False) -> Engine:
    """An engine on a PostgreSQL that answers; UnavailableError when none does, BadInputError for a URL that is none.

    `reading`: nothing is written, no statement takes longer than a few seconds, and each sees what was committed before it.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _not_a_url() from error
    if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
        raise _not_a_url()
    limits = f" -c default_transaction_read_only=on -c statement_timeout={_READ_TIMEOUT_MS}" if reading else ""
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,
        # A READ COMMITTED transaction shows no one moment either: two round trips less a question.
        isolation_level="AUTOCOMMIT" if reading else "READ COMMITTED",
        connect_args={
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "options": f"-c lock_timeout={_LOCK_TIMEOUT_MS} -c timezone=UTC -c jit=off{limits}",
            "application_name": "dayzero",
        },
    )
    try:
        with translated(), engine.connect():
            return engine
    except DayzeroError:
        engine.dispose()
        raise


def _not_a_url() -> BadInputError:
    return BadInputError(
        "the database URL is not usable.",
        remedy="Set DAYZERO_DATABASE_URL to postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE.",
    )


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """One transaction: committed at the end, rolled back by any exception; database failures become our errors."""
    with translated(), Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's exceptions into ours.

    Lost or locked: UnavailableError; disk full or schema of another version: DependencyError; unfit values: BadInputError.
    """
    try:
        yield
    except DBAPIError as error:
        raise _translation(error) from error
    except TimeoutError as error:
        raise UnavailableError("every connection to the database is in use.") from error


def _translation(error: DBAPIError) -> DayzeroError:
    cause = error.orig
    said = str(cause).strip().splitlines()[0].rstrip(".") if str(cause).strip() else type(cause).__name__
    if isinstance(cause, psycopg.errors.DiskFull):
        return DependencyError("no space is left on the database's disk.", remedy="Free some space and try again.")
    if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return DependencyError(f"the database's schema is not this version's: {said}.", remedy="Run `dayzero db upgrade`.")
    if isinstance(
        cause, psycopg.errors.DeadlockDetected | psycopg.errors.LockNotAvailable | psycopg.errors.SerializationFailure
    ):
        return UnavailableError(f"the database is busy: {said}.")
    if isinstance(cause, psycopg.errors.QueryCanceled):
        longest_s = _READ_TIMEOUT_MS / 1000
        return BadInputError(f"the question takes the database longer than {longest_s:.0f} s.", remedy="Ask for less.")
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.TooManyConnections):
        return UnavailableError(f"the database takes no writes now: {said}.")
    if isinstance(cause, psycopg.DataError | psycopg.errors.ProgramLimitExceeded):
        return BadInputError(f"the database cannot hold this value: {said}.")
    if isinstance(cause, psycopg.OperationalError) or error.connection_invalidated:
        return UnavailableError(f"the database does not answer: {said}.", remedy=_DOWN)
    if isinstance(cause, psycopg.InternalError):
        return UnavailableError(f"the database failed: {said}.")
    return DependencyError(f"the database refused: {said}.")
