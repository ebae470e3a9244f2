"""The embedded server: found again, kept apart from others, and back after a SIGKILL."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from dayzero.adapters.store import cluster, embedded, migrate
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.connection import open_engine, transaction
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.domain.results import result_key
from dayzero.errors import BadInputError, DependencyError, UnavailableError
from store_nouns import SteppedClock, release

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def _postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])


def test_found_again_and_stopped_by_the_last(data_dir: Path) -> None:
    with embedded.running(data_dir) as url:
        first = _postmaster(data_dir)
        with embedded.running(data_dir) as again:
            assert again == url and _postmaster(data_dir) == first
        assert embedded.is_running(data_dir)
        assert embedded.start(data_dir) == url
    assert embedded.is_running(data_dir), "the supervisor still holds it"
    assert embedded.stop(data_dir) and not embedded.is_running(data_dir)
    assert embedded.stop(data_dir), "stopping again is no error"
    (data_dir / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{data_dir}/postgres\n1\n1\n\n\n\nready\n")
    with embedded.running(data_dir) as third:
        assert third == url, "the same port and password, so that a URL that somebody holds stays good"


def test_two_commands_at_once(data_dir: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dayzero.adapters.store import embedded; import psycopg\n"
        "with embedded.running(Path(sys.argv[1])) as url:\n"
        "    psycopg.connect(url.replace('+psycopg', '')).close(); print(url)"
    )
    with ThreadPoolExecutor(3) as pool:
        command = [sys.executable, "-c", program, str(data_dir)]
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, check=False), range(3)))
    assert [each.returncode for each in done] == [0, 0, 0], [each.stderr for each in done]
    assert len({each.stdout for each in done}) == 1
    assert not embedded.is_running(data_dir)


def test_sigkill_loses_nothing(data_dir: Path) -> None:
    clock = SteppedClock()
    url = embedded.start(data_dir)
    try:
        migrate.upgrade(url)
        engine = open_engine(url)
        ledger = SqlLedger(engine, clock, FolderArtifacts(data_dir / "artifacts"))
        (made,) = SqlWatchBook(engine, clock).record_release(release(), ["cpu"]).adaptations
        lease = ledger.claim(made, 1, "run")
        ledger.put_result(result_key("inspect", 1), b"{}", lease)
        with pytest.raises(UnavailableError), transaction(engine) as session:
            session.execute(text("INSERT INTO platforms VALUES ('lost', now())"))
            os.kill(_postmaster(data_dir), signal.SIGKILL)
            session.execute(text("SELECT pg_sleep(10)"))
        with pytest.raises(UnavailableError):
            ledger.heartbeat(lease, None)
        assert not embedded.is_running(data_dir)
        assert embedded.start(data_dir) == url
        ledger.heartbeat(lease, "plan")
        assert ledger.find_result(result_key("inspect", 1)) is not None
        with transaction(engine) as session:
            assert session.execute(text("SELECT slug FROM platforms")).scalars().all() == ["cpu"]
        engine.dispose()
    finally:
        embedded.stop(data_dir, force=True)


def test_nobody_else_gets_in(data_dir: Path) -> None:
    with embedded.running(data_dir) as url:
        parts = make_url(url)
        assert parts.host == "127.0.0.1"
        for password in ("", "guess"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(host=parts.host, port=parts.port, user=parts.username, password=password, dbname="postgres")
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
            assert rules == [("scram-sha-256",)]
            assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
    assert (data_dir / "postgres.json").stat().st_mode & 0o777 == 0o600
    assert not list(data_dir.glob("postgres.pw*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_another_account_reads_nothing(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    with embedded.running(data_dir):
        for path in (data_dir / "postgres.json", data_dir / "postgres" / "PG_VERSION", data_dir):
            listing = ["ls" if path.is_dir() else "cat", str(path)]
            outcome = subprocess.run(
                listing, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], capture_output=True, check=False
            )
            assert outcome.returncode != 0


def test_a_port_that_is_taken(data_dir: Path) -> None:
    with embedded.running(data_dir) as url:
        port = make_url(url).port
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with pytest.raises(cluster.PortTakenError):
            cluster.start(data_dir.resolve() / "postgres", "127.0.0.1", port)
        with embedded.running(data_dir) as other:
            assert make_url(other).port != port


def test_databases_for_others(data_dir: Path) -> None:
    with embedded.running(data_dir) as url:
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(lambda _: embedded.ensure_database(url, "prefect"), range(2)))
        assert made[0] == made[1] and make_url(made[0]).database == "prefect"
        with psycopg.connect(made[0].replace("+psycopg", "")) as connection:
            assert connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'").fetchone() == (1,)
        for name in ("", "a b", 'x"; DROP', "x" * 64):
            with pytest.raises(BadInputError):
                embedded.ensure_database(url, name)
    with pytest.raises(UnavailableError):
        embedded.ensure_database(url, "prefect")


def test_unreadable_credentials(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "postgres.json").write_text("{")
    with pytest.raises(DependencyError, match=r"postgres\.json cannot be read"), embedded.running(data_dir):
        pass


def test_a_lost_password_is_said(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "PG_VERSION").write_text("18")
    with pytest.raises(DependencyError, match=r"postgres\.json is missing"), embedded.running(data_dir):
        pass


def test_a_busy_server_is_not_ended(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded.running(data_dir):
        first = _postmaster(data_dir)
        os.kill(first, signal.SIGSTOP)
        try:
            monkeypatch.setattr(embedded, "_ANSWER_TIMEOUT_S", 1)
            with pytest.raises(UnavailableError, match="has not answered"), embedded.running(data_dir):
                pass
        finally:
            os.kill(first, signal.SIGCONT)
        with embedded.running(data_dir):
            assert _postmaster(data_dir) == first


def test_a_data_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DependencyError, match="cannot be made"), embedded.running(tmp_path / "file" / "data"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        with pytest.raises(DependencyError, match="no space is left"), embedded.running(small / "data"):
            pass
        assert not (small / "data" / "postgres").exists(), "no half-made cluster stays under the final name"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
