"""What a worker's processes are told, and what they are not."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from dayzero.adapters.prefect.environment import api_url, asyncpg_url, client_environment, server_environment
from dayzero.adapters.processes.environments import control_environment, worker_environment
from dayzero.cli.up import _worker_spec
from dayzero.errors import BadInputError
from dayzero.settings import Settings, load_settings

SECRET = "postgresql+psycopg://dayzero:secret@127.0.0.1/dayzero"
INHERITED = {
    "PATH": "/usr/bin",
    "HOME": "/home/somebody",
    "DAYZERO_DATABASE_URL": SECRET,
    "PGPASSWORD": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PREFECT_API_URL": "http://elsewhere/api",
}


def some_settings(tmp_path: Path) -> Settings:
    return load_settings(
        data_dir=tmp_path / "control",
        database_url=SecretStr(SECRET),
        hf_token=SecretStr("hf_token"),
        operator_plugins=("planted-fault:seed=7@demo/*",),
        allow_pickle=("org/name",),
        cpu_devices=3,
        compile_target=False,
        check_memory_bytes=2**30,
        oidc_scopes={"ml-platform": "write", "*": "read"},
        oidc_client_secret=SecretStr("client secret"),
    )


def test_a_worker_is_told_nothing_of_the_database_and_the_data_folder(tmp_path: Path) -> None:
    settings = some_settings(tmp_path)
    folder = tmp_path / "worker"
    told = worker_environment(settings, INHERITED, data_dir=folder, ledger_url="http://127.0.0.1:8711", token="t")
    told |= client_environment("http://127.0.0.1:4200/api", folder / "prefect")
    assert not [name for name, value in told.items() if "secret" in value or str(tmp_path / "control") in value]
    assert "DAYZERO_DATABASE_URL" not in told
    assert told["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"


def test_settings_survive_the_way_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = some_settings(tmp_path)
    told = worker_environment(settings, INHERITED, data_dir=tmp_path / "worker", ledger_url="http://x", token="t")
    for name in [name for name in os.environ if name.startswith("DAYZERO_")]:
        monkeypatch.delenv(name)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    read = load_settings()
    for name in ("operator_plugins", "allow_pickle", "cpu_devices", "compile_target", "check_memory_bytes", "hf_token"):
        assert getattr(read, name) == getattr(settings, name), name
    assert read.ledger_url == "http://x"
    assert read.database_url is None


def test_a_variable_that_is_no_json_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYZERO_OIDC_SCOPES", "{'ml-platform': 'write'}")
    with pytest.raises(BadInputError, match=r"oidc_scopes.*written as JSON"):
        load_settings()


def test_control_processes_get_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = some_settings(tmp_path)
    told = control_environment(settings, INHERITED)
    assert "http://elsewhere/api" not in told.values()
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings.model_copy(update={"data_dir": settings.data_dir.resolve()})


def test_the_server_speaks_to_our_database_and_to_nobody_else(tmp_path: Path) -> None:
    told = server_environment(SECRET, "0.0.0.0", 4300, tmp_path)
    assert told["PREFECT_SERVER_DATABASE_CONNECTION_URL"] == "postgresql+asyncpg://dayzero:secret@127.0.0.1/dayzero"
    assert told["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert told["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"


@pytest.mark.parametrize("url", ["sqlite:///x", "", "nonsense", "mysql://x"])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(BadInputError, match="PostgreSQL"):
        asyncpg_url(url)


def test_an_ipv6_host_is_bracketed() -> None:
    assert api_url("::1", 4200) == "http://[::1]:4200/api"


def test_the_workers_of_a_host_share_one_store_and_its_limits(tmp_path: Path) -> None:
    settings = some_settings(tmp_path).model_copy(
        update={"prefect_api_url": "http://x/api", "store_limit_bytes": 5 * 10**12, "hub_bytes_per_s": 1e9}
    )
    told = [_worker_spec(settings, INHERITED, tmp_path / "control", slug, "t").environment for slug in ("cpu", "h100")]
    assert {one["DAYZERO_STORE_DIR"] for one in told} == {str(tmp_path / "control" / "store")}
    assert {one["DAYZERO_STORE_LIMIT_BYTES"] for one in told} == {str(5 * 10**12)}
    assert {one["DAYZERO_HUB_BYTES_PER_S"] for one in told} == {"1000000000.0"}
    elsewhere = settings.model_copy(update={"store_dir": tmp_path / "large"})
    assert _worker_spec(elsewhere, INHERITED, tmp_path / "control", "cpu", "t").environment["DAYZERO_STORE_DIR"] == str(
        tmp_path / "large"
    )
