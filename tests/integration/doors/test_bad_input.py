"""Bad input at the real command line, against a hostile hub: one sentence, the documented exit code, an honest state."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from door_commands import Door

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.connection import open_engine
from dayzero.domain.adaptation import AdaptationState
from hostile_hub import HostileHub

pytestmark = [pytest.mark.hub, pytest.mark.torch, pytest.mark.slow]

HUB = [
    # behaviour, command, exit code, what is named, what to do
    ("down", "inspect", 4, "cannot be reached", "See whether the hub is up"),
    ("slow", "inspect", 4, "did not answer for hf:acme/tiny", "DAYZERO_HUB_TIMEOUT_S"),
    ("failing", "inspect", 4, "status 500 for hf:acme/tiny", "Try again later"),
    ("missing", "inspect", 2, "there is no hf:acme/tiny", "See whether name and revision are right"),
    ("unauthorized", "inspect", 3, "hf:acme/tiny", "DAYZERO_HF_TOKEN"),
    ("gated", "inspect", 3, "hf:acme/tiny@", "Accept its licence"),
    ("rate-limited-long", "inspect", 4, "for 3600 s (429) about hf:acme/tiny", "It is tried again"),
    ("truncated", "fetch", 4, "model.safetensors of hf:acme/tiny@", "it is tried again"),
    ("wrong-digest", "fetch", 2, "model.safetensors of hf:acme/tiny@", "do not trust this copy"),
    ("wrong-config", "inspect", 2, "config.json of hf:acme/tiny@", "do not trust this copy"),
    ("missing-shard", "fetch", 2, "model-00002-of-00002.safetensors", "publisher has to mend the repository"),
    ("header-lies", "inspect", 2, "hf:acme/tiny@", "publisher has to mend it"),
    ("header-huge", "inspect", 2, "hf:acme/tiny@", "publisher has to mend it"),
    ("config-not-json", "inspect", 2, "hf:acme/tiny@", "Give the config.json"),
    ("config-deep", "inspect", 2, "hf:acme/tiny@", "Give the config.json"),
    ("config-no-type", "fetch", 3, "no plan fits acme/tiny on cpu", "dayzero plan hf:acme/tiny --platform cpu"),
    ("config-unknown", "fetch", 3, "no plan fits acme/tiny on cpu", "dayzero plan hf:acme/tiny --platform cpu"),
    ("pickle-only", "inspect", 3, "acme/tiny publishes its weights only as .bin", "DAYZERO_ALLOW_PICKLE"),
    ("climbing-names", "inspect", 2, "hf:acme/tiny", "its publisher has to rename the file"),
    ("absolute-names", "fetch", 2, "hf:acme/tiny", "its publisher has to rename the file"),
]


@pytest.mark.parametrize(("behaviour", "command", "code", "names", "remedy"), HUB, ids=[row[0] for row in HUB])
def test_a_hostile_hub_is_one_sentence(
    behaviour: str, command: str, code: int, names: str, remedy: str, served: Path, tmp_path: Path
) -> None:
    door = Door(tmp_path)
    further = ("--out", tmp_path / "out", "--tp", "2") if command == "fetch" else ()
    with HostileHub(behaviour, served) as hub:
        said = door(command, "hf:acme/tiny", *further, HF_ENDPOINT=hub.url)
    assert said.code == code, said
    assert names in said.error
    assert remedy in said.error
    assert said.out == ""
    assert not list(tmp_path.glob("out/rank*.safetensors")), "nothing half-made has the name of a shard"


def test_a_hub_that_asks_for_a_pause_is_asked_again_after_it(served: Path, tmp_path: Path) -> None:
    with HostileHub("rate-limited", served) as hub:
        said = Door(tmp_path)("inspect", "hf:acme/tiny", "--json", HF_ENDPOINT=hub.url, HUB_RETRIES="2")
    assert (said.code, said.err) == (0, "")
    assert said.document["model"]["repo_id"] == "acme/tiny"


def test_own_code_of_a_known_architecture_is_not_run_and_not_needed(served: Path, tmp_path: Path) -> None:
    with HostileHub("remote-code", served) as hub:
        said = Door(tmp_path)("inspect", "hf:acme/tiny", "--json", HF_ENDPOINT=hub.url)
    assert said.code == 0
    assert said.document["remote_code"] is True
    assert said.document["known"] is True


def test_an_unknown_architecture_shows_all_that_the_headers_prove(served: Path, tiny: Path, tmp_path: Path) -> None:
    with HostileHub("config-unknown", served) as hub:
        said = Door(tmp_path)("inspect", "hf:acme/tiny", "--json", HF_ENDPOINT=hub.url)
    honest = Door(tmp_path)("inspect", tiny, "--json").document
    assert said.code == 0
    assert said.document["known"] is False
    assert said.document["layers"] == []
    assert said.document["state"]["bytes_per_token"] is None
    assert said.document["parameters"]["total"] == honest["parameters"]["total"]
    assert "structure.unknown_architecture" in [finding["code"] for finding in said.document["findings"]]


ADAPT = [
    # behaviour, exit code, state, what is said
    ("gated", 3, "blocked", "Accept its licence"),
    ("pickle-only", 3, "blocked", "DAYZERO_ALLOW_PICKLE"),
    ("config-unknown", 3, "blocked", "no reference implementation of hf:acme/config-unknown@"),
    ("config-no-type", 3, "blocked", "no reference implementation of hf:acme/config-no-type@"),
    ("config-not-json", 2, "failed", "config.json is not JSON"),
    ("header-lies", 2, "failed", "publisher has to mend it"),
    ("wrong-digest", 2, "failed", "do not trust this copy"),
]


@pytest.fixture(scope="module")
def adapting(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Door:
    """One database and one data folder for all adaptations here."""
    home = tmp_path_factory.mktemp("adapting")
    return Door(home, {"DATABASE_URL": postgres_server, "CPU_DEVICES": "2"})


@contextmanager
def stored(url: str) -> Iterator[tuple[SqlCatalog, SqlCompatibilityList]]:
    engine = open_engine(url)
    try:
        yield SqlCatalog(engine, SystemClock()), SqlCompatibilityList(engine, SystemClock())
    finally:
        engine.dispose()


def published(tiny: Path, folder: Path, name: str) -> Path:
    """The tiny model as acme/NAME, with content of its own: adaptations are one a content."""
    home = folder / "acme" / name
    shutil.copytree(tiny, home, copy_function=os.link)
    (home / "params.json").write_text(json.dumps({"case": name}))
    return folder


@pytest.mark.postgres
@pytest.mark.parametrize(("behaviour", "code", "state", "says"), ADAPT, ids=[row[0] for row in ADAPT])
def test_an_adaptation_ends_honestly(
    behaviour: str, code: int, state: str, says: str, adapting: Door, postgres_server: str, tiny: Path, tmp_path: Path
) -> None:
    model = f"acme/{behaviour}"
    folder = published(tiny, tmp_path / "hub" / "models", behaviour)
    with HostileHub(behaviour, folder) as hub:
        said = adapting("adapt", f"hf:{model}", "--platform", "cpu", "--no-server", HF_ENDPOINT=hub.url)
    assert said.code == code, said
    assert says in said.error
    assert model in said.error
    with stored(postgres_server) as (catalog, entries):
        (adaptation,) = catalog.adaptations(model=model)
        (row,) = entries.current(f'model = "{model}"')
    assert adaptation.state is AdaptationState(state)
    assert adaptation.reason is not None and says in adaptation.reason
    assert row["lifecycle"] == "blocked"
    assert row["correctness"] == "unknown"
    assert str(row["reason"]).startswith("blocked: ") and says in str(row["reason"])
    assert row["checks_failed"] == 0 and isinstance(row["checks_passed"], int)


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_what_a_hub_broke_off_completes_when_it_is_well_again(
    adapting: Door, postgres_server: str, tiny: Path, tmp_path: Path
) -> None:
    folder = published(tiny, tmp_path / "hub" / "models", "mended")
    asked = ("adapt", "hf:acme/mended", "--platform", "cpu", "--no-server", "--json")
    with HostileHub("cut-once", folder) as hub:
        first = adapting(*asked, HF_ENDPOINT=hub.url)
        assert first.code == 4, first
        assert "it is tried again" in first.error
        assert first.document["adaptation"]["state"] == "failed"
        assert first.document["verification"]["entry"]["correctness"] == "unknown"
        second = adapting(*asked, HF_ENDPOINT=hub.url, timeout_s=500)
    assert second.document["adaptation"]["id"] == first.document["adaptation"]["id"]
    assert second.document["adaptation"]["state"] == "done", second
    assert second.document["verification"]["entry"]["correctness"] in ("verified", "functional")
    assert second.code == (0 if second.document["verification"]["entry"]["correctness"] == "verified" else 3)
    with stored(postgres_server) as (_, entries):
        (row,) = entries.current('model = "acme/mended"')
    assert row["lifecycle"] == "done"


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_disk_too_small_is_known_before_the_weights_are_fetched(small_disk: Path, served: Path, tmp_path: Path) -> None:
    with HostileHub("none", served) as hub:
        door = Door(tmp_path, {"HF_ENDPOINT": hub.url})
        said = door("fetch", "hf:acme/tiny", "--out", small_disk / "out")
        asked = [one.path for one in hub.asked if one.path.endswith(".safetensors") and one.sent_bytes > 100_000]
    assert said.code == 4
    assert f"under {small_disk}" in said.error
    assert "sharding for tp2 needs" in said.error
    assert "DAYZERO_DATA_DIR" in said.error
    assert asked == [], "no weights were asked for"


def test_a_full_disk_is_one_sentence(small_disk: Path, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError), (small_disk / "fill").open("wb", buffering=0) as fill:
        while True:
            fill.write(bytes(4096))
    said = Door(tmp_path, {"DATA_DIR": str(small_disk)})("inspect", tiny)
    assert said.code == 4
    assert str(small_disk) in said.error
    assert "No space left on device" in said.error
    assert "Free some space" in said.error


def test_a_disk_that_may_not_be_written_is_one_sentence(small_disk: Path, tiny: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for command in (
        ("fetch", tiny, "--out", small_disk / "out"),
        ("convert", tiny, "--to", "fp8-block", "--out", small_disk / "out"),
    ):
        said = Door(tmp_path)(*command)
        assert said.code == 4
        assert f"{small_disk}" in said.error and "cannot be written: Read-only file system" in said.error
        assert "may be written to" in said.error


def test_a_degree_that_does_not_divide_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    said = Door(tmp_path)("fetch", tiny, "--out", tmp_path / "out", "--tp", "3")
    assert said.code == 3
    assert "no plan fits llama-tiny on cpu: 8 heads do not divide by tp 3" in said.error
    assert "dayzero plan" in said.error
    assert not (tmp_path / "out").exists()


def test_a_taken_port_of_the_hub_is_one_sentence(served: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = Door(tmp_path)("hub", "serve", served, "--port", str(port))
    assert said.code == 4
    assert f"127.0.0.1:{port}" in said.error
    assert "--port" in said.error


@pytest.mark.parametrize("command", [("compat", "ls"), ("up",), ("db", "current")], ids=["compat", "up", "db"])
def test_no_postgres_is_one_sentence(command: tuple[str, ...], tmp_path: Path) -> None:
    port = closed_port()
    url = f"postgresql+psycopg://nobody:secret-word@127.0.0.1:{port}/nowhere"
    said = Door(tmp_path)(*command, DATABASE_URL=url, PORT=str(closed_port()), PREFECT_PORT=str(closed_port()))
    assert said.code == 4, said
    assert str(port) in said.error
    assert "DAYZERO_DATABASE_URL" in said.error
    assert "secret-word" not in said.err + said.out


@pytest.mark.postgres
def test_nobody_there_to_adapt_is_one_sentence(postgres_server: str, tiny: Path, tmp_path: Path) -> None:
    door = Door(tmp_path, {"DATABASE_URL": postgres_server, "ORPHAN_AFTER_S": "1"})
    said = door("adapt", tiny, "--platform", "h100")
    assert said.code == 4
    assert "llama-tiny on h100" in said.error
    assert "dayzero up" in said.error
    with stored(postgres_server) as (catalog, _):
        (adaptation,) = catalog.adaptations(model="llama-tiny")
    assert adaptation.state is AdaptationState.REQUESTED, "the request stays for the next `dayzero up`"


def test_a_platform_without_a_worker_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    said = Door(tmp_path)("verify", tiny, "--platform", "h100")
    assert said.code == 3
    assert "h100" in said.error
    assert "dayzero worker join --platform h100" in said.error


def test_a_platform_that_nobody_knows_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    said = Door(tmp_path)("plan", tiny, "--platform", "abacus")
    assert said.code == 2
    assert "abacus" in said.error
    assert "cpu" in said.error


@pytest.mark.parametrize("model", ["hf:../../etc", "hf:/etc/passwd", "hf:acme/tiny@../x y", "/no/such/folder", ""])
def test_a_model_that_is_no_name_is_one_sentence(model: str, tmp_path: Path) -> None:
    said = Door(tmp_path)("inspect", model)
    assert said.code == 2
    assert said.error
