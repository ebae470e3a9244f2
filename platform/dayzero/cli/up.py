"""dayzero up: the whole of it as one foreground group."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import typer
from pydantic import SecretStr
from rich.console import Console

from dayzero import app
from dayzero.adapters.prefect.environment import api_url, client_environment, server_environment
from dayzero.adapters.prefect.names import CONTROL_POOL
from dayzero.adapters.processes.environments import control_environment, worker_environment
from dayzero.adapters.processes.folder import ADDRESSES, clear_leftovers, only_one, write_addresses, write_children
from dayzero.adapters.processes.group import ChildSpec, Group
from dayzero.adapters.processes.ports import free_port, require_free
from dayzero.settings import Settings, load_settings

TOKEN_VALID_S = 30 * 24 * 3600.0
CONTROL_RUNS = 16


def up() -> None:
    """Start everything and stay in the foreground; Ctrl-C stops all of it."""
    run_up(load_settings(), Console(stderr=False))


def run_up(settings: Settings, console: Console) -> None:
    """Postgres, Prefect server, control plane, workers: started in this order, watched, stopped in the opposite one."""
    data_dir = settings.data_dir.expanduser().resolve()
    with only_one(data_dir):
        for name in clear_leftovers(data_dir):
            console.print(f"stopped {name}, which a former `dayzero up` had left behind")
        settings = _with_ports(settings, data_dir)
        say = _teller(console)
        group = Group(data_dir / "logs", say, lambda pids: write_children(data_dir, pids))
        group.stop_on_signals()
        with app.database_url(settings) as url:
            try:
                own = settings.model_copy(update={"database_url": SecretStr(url)})
                _start_all(group, own, data_dir, say)
                keeper = app.PostgresKeeper(data_dir, say) if settings.database_url is None else None
                if not group.stopping:
                    _announce(own, data_dir, say)
                group.watch(keeper or (lambda: None))
            finally:
                say("stopping")
                (data_dir / ADDRESSES).unlink(missing_ok=True)
                group.stop()
        say("stopped")


def _teller(console: Console) -> Callable[[str], None]:
    def say(line: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {line}", highlight=False, markup=False, soft_wrap=True)

    return say


def _with_ports(settings: Settings, data_dir: Path) -> Settings:
    """Settings whose ports are free and known, and whose folder is absolute."""
    port = settings.port or free_port(settings.host)
    require_free(settings.host, port, "DAYZERO_PORT")
    changes: dict[str, object] = {"port": port, "data_dir": data_dir}
    if settings.prefect_api_url is None:
        prefect_port = settings.prefect_port or free_port(settings.host)
        require_free(settings.host, prefect_port, "DAYZERO_PREFECT_PORT")
        changes["prefect_port"] = prefect_port
    return settings.model_copy(update=changes)


def _start_all(group: Group, settings: Settings, data_dir: Path, say: Callable[[str], None]) -> None:
    assert settings.database_url is not None, "the caller knows the database by now"
    database = settings.database_url.get_secret_value()
    say("the database runs")
    tokens = _issue_tokens(settings)
    serves_prefect = settings.prefect_api_url is None
    prefect_api = settings.prefect_api_url or api_url(settings.host, settings.prefect_port)
    settings = settings.model_copy(update={"prefect_api_url": prefect_api})
    home = data_dir / "prefect"
    inherited = dict(os.environ)
    control = {**control_environment(settings, inherited), **client_environment(prefect_api, home)}
    specs = [
        ChildSpec("control", "dayzero.cli.control", (), control, lambda: _is_healthy(_door_url(settings) + "/healthz")),
        ChildSpec("control-worker", "prefect", worker_arguments(CONTROL_POOL, "control", CONTROL_RUNS), control),
        *(_worker_spec(settings, inherited, data_dir, platform, token) for platform, token in tokens.items()),
    ]
    if serves_prefect:
        server_env = server_environment(app.prefect_database(database), settings.host, settings.prefect_port, home)
        environment = {**control_environment(settings, inherited), **server_env}
        server = ChildSpec(
            "prefect-server", "prefect", ("server", "start"), environment, lambda: _is_healthy(prefect_api + "/health")
        )
        specs.insert(0, server)
    for spec in specs:
        if group.stopping:
            return
        group.start(spec)
        say(f"{spec.name} runs")


def _issue_tokens(settings: Settings) -> dict[str, str]:
    """Migrate the database, and issue a token for each local worker."""
    with app.control_plane(settings) as plane:
        return {platform: plane.workforce.issue_token(platform, "worker", TOKEN_VALID_S)[0] for platform in settings.platforms}


def _worker_spec(settings: Settings, inherited: dict[str, str], data_dir: Path, platform: str, token: str) -> ChildSpec:
    folder = data_dir / "workers" / platform
    # The workers of this host share one store, which is also that of the commands in this data folder.
    shared = settings.model_copy(update={"store_dir": settings.store_dir or data_dir / "store"})
    environment = worker_environment(shared, inherited, data_dir=folder, ledger_url=_door_url(settings), token=token)
    assert settings.prefect_api_url is not None, "set just before"
    environment |= client_environment(settings.prefect_api_url, folder / "prefect")
    return ChildSpec(f"worker-{platform}", "dayzero.cli.worker", ("join", "--platform", platform), environment)


def worker_arguments(pool: str, name: str, limit: int) -> tuple[str, ...]:
    """Arguments of a Prefect process worker."""
    return ("worker", "start", "--pool", pool, "--type", "process", "--name", f"dayzero-{name}", "--limit", str(limit))


def _door_url(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _announce(settings: Settings, data_dir: Path, say: Callable[[str], None]) -> None:
    prefect_api = settings.prefect_api_url or api_url(settings.host, settings.prefect_port)
    ui = prefect_api.removesuffix("/api")
    addresses: dict[str, str | int] = {
        "door": _door_url(settings),
        "prefect_api": prefect_api,
        "prefect_ui": ui,
        "pid": os.getpid(),
    }
    write_addresses(data_dir, addresses)
    say(f"ready. HTTP door {_door_url(settings)}   Prefect UI {ui}   logs {data_dir / 'logs'}")
    say("Ctrl-C stops everything.")


if __name__ == "__main__":
    typer.run(up)
