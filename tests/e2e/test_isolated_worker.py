"""A worker on another network, as another account: it reaches the control plane's doors and nothing else, and does its work."""

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from dayzero import app
from e2e.namespaces import ACCOUNT, Elsewhere, elsewhere
from e2e.scenario import ORPHAN_AFTER_S, Scenario, kill_tree, scenario

pytestmark = [pytest.mark.netns, pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(2400)]
REPO_ID = "demo/elsewhere"

WHAT_IT_REACHES = """
import json, socket, sys
from pathlib import Path

def tried(call):
    try:
        call()
    except OSError as error:
        return type(error).__name__
    return "done"

data_dir, port, address = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print(json.dumps({
    "list": tried(lambda: list(data_dir.iterdir())),
    "password": tried(lambda: (data_dir / "postgres.json").read_text()),
    "database on its loopback": tried(lambda: socket.create_connection(("127.0.0.1", port), 5)),
    "database on our address": tried(lambda: socket.create_connection((address, port), 5)),
}))
"""


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Elsewhere]:
    with elsewhere(tmp_path) as made:
        yield made


@pytest.fixture
def home(apart: Elsewhere) -> Iterator[Path]:
    """A folder of the account's own."""
    with tempfile.TemporaryDirectory(prefix="dayzero-worker-", ignore_cleanup_errors=True) as name:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(name, account.pw_uid, account.pw_gid)
        yield Path(name)


def variables(home: Path, group: Scenario) -> dict[str, str]:
    """Everything that the worker is told; of the control plane only its address."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "TMPDIR": str(home),
        "DAYZERO_DATA_DIR": str(home / "data"),
        "DAYZERO_HF_ENDPOINT": group.hub_url,
        "DAYZERO_CPU_DEVICES": "2",
        "DAYZERO_COMPILE_TARGET": "false",
        "DAYZERO_ORPHAN_AFTER_S": str(ORPHAN_AFTER_S),
        "PREFECT_API_URL": group.addresses["prefect_api"],
        "OMP_NUM_THREADS": "2",
    }


@contextmanager
def joined(apart: Elsewhere, home: Path, group: Scenario, token: str) -> Iterator[Path]:
    """A worker there while the context lasts; its log."""
    arguments = [sys.executable, "-m", "dayzero.cli.main", "worker", "join", "--platform", "cpu"]
    arguments += ["--url", group.addresses["door"], "--token", token]
    log = group.folder / "worker.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            apart.command(arguments),
            env=variables(home, group),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield log
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            kill_tree(psutil.Process(process.pid))
            process.wait()


def test_a_worker_that_can_open_neither_folder_nor_database_verifies(apart: Elsewhere, home: Path, small_model: Path) -> None:
    with scenario(host=apart.our_address, DAYZERO_PLATFORMS="[]") as group:
        group.begin()
        group.watch_and_subscribe()
        port = json.loads((group.data_dir / "postgres.json").read_text())["port"]
        asked = [sys.executable, "-c", WHAT_IT_REACHES, str(group.data_dir), str(port), apart.our_address]
        said = subprocess.run(
            apart.command(asked), env=variables(home, group), capture_output=True, text=True, check=True, timeout=120
        )
        assert json.loads(said.stdout) == {
            "list": "PermissionError",
            "password": "PermissionError",
            "database on its loopback": "ConnectionRefusedError",
            "database on our address": "ConnectionRefusedError",
        }
        with app.control_plane(group.settings()) as plane:
            token, _ = plane.workforce.issue_token("cpu", "worker", 3600)
        with joined(apart, home, group, token) as log:
            group.prestage(small_model, REPO_ID)
            group.publish(small_model, REPO_ID)
            row = group.until_ended(REPO_ID)
            assert row["state"] == "done", f"{row}\n{log.read_text()}"
            work = next((home / "data").rglob("model*.safetensors"))
            assert work.stat().st_uid == pwd.getpwnam(ACCOUNT).pw_uid
        assert not list((group.data_dir / "work").rglob("*.safetensors")), "the control plane fetches no weights"
        (entry,) = group.rows(
            "SELECT correctness, checks_passed, checks_failed, reason FROM compatibility_current WHERE model = %s", REPO_ID
        )
        assert (entry["correctness"], entry["checks_failed"]) == ("verified", 0), entry
        assert entry["checks_passed"] >= 8, entry
