"""dayzero worker: this host serves a platform."""

import os
import uuid
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr
from rich.console import Console

from dayzero import app as composition
from dayzero.adapters.prefect.environment import client_environment
from dayzero.adapters.prefect.names import pool_of
from dayzero.adapters.processes.environments import worker_environment
from dayzero.adapters.processes.folder import only_one
from dayzero.adapters.processes.group import ChildSpec, Group
from dayzero.adapters.processes.loops import Loop, Loops
from dayzero.adapters.remote.ledger import HttpLedger
from dayzero.disk import write_whole
from dayzero.errors import BadInputError
from dayzero.settings import Settings, load_settings

LONGEST_BETWEEN_HEARTBEATS_S = 10.0
HEARTBEATS_WITHIN_SILENCE = 4
RUNS_AT_ONCE = 1
DEFAULT_VALID_DAYS = 30.0
DAY_S = 24 * 3600.0

app = typer.Typer(help="Workers that serve a platform.", no_args_is_help=True)


@app.command()
def join(
    platform: Annotated[str, typer.Option(help="The platform this host serves, by its slug.")],
    url: Annotated[str | None, typer.Option(help="The control plane's address (DAYZERO_LEDGER_URL).")] = None,
    token: Annotated[str | None, typer.Option(help="Its token (better: DAYZERO_WORKER_TOKEN).")] = None,
    prefect_api: Annotated[str | None, typer.Option(help="The Prefect API (PREFECT_API_URL).")] = None,
) -> None:
    """Register this host, tell what it offers, and serve the platform's pool until Ctrl-C."""
    changes: dict[str, object] = {}
    if url is not None:
        changes["ledger_url"] = url
    if token is not None:
        changes["worker_token"] = SecretStr(token)
    settings = load_settings().model_copy(update=changes)
    run_worker(settings, platform, prefect_api or os.environ.get("PREFECT_API_URL") or settings.prefect_api_url)


@app.command()
def token(
    platform: Annotated[str, typer.Option(help="The platform that the token is good for.")],
    valid_days: Annotated[float, typer.Option(help="Days until it expires.", min=0.01)] = DEFAULT_VALID_DAYS,
) -> None:
    """Issue a token for a worker of a platform; it is shown this once."""
    with composition.control_plane(load_settings()) as plane:
        if platform not in plane.profiles:
            known = ", ".join(sorted(plane.profiles))
            raise BadInputError(f"there is no platform {platform}.", remedy=f"Known ones: {known}.")
        text, allowed = plane.workforce.issue_token(platform, "worker", valid_days * DAY_S)
    typer.echo(text)
    typer.echo(f"good for {allowed.platform} until {allowed.expires_at:%Y-%m-%d %H:%M} UTC", err=True)


def run_worker(settings: Settings, platform: str, prefect_api: str | None) -> None:
    """Serve a platform: heartbeats to the ledger, and a Prefect process worker that knows no database."""
    if settings.ledger_url is None or settings.worker_token is None:
        raise BadInputError(
            "this worker does not know its control plane.", remedy="Give --url, and the token in DAYZERO_WORKER_TOKEN."
        )
    if prefect_api is None:
        raise BadInputError("this worker does not know the Prefect API.", remedy="Give --prefect-api, or set PREFECT_API_URL.")
    console = Console()
    folder = settings.data_dir.expanduser().resolve()
    with only_one(folder):
        ledger = HttpLedger(settings.ledger_url, settings.worker_token.get_secret_value())
        worker_id = own_id(folder)
        known = ledger.manifest(platform)
        if known is not None and known[1].published is None:
            # Probing takes a while; what is known of this platform is enough to say that a worker is there.
            ledger.worker_seen(worker_id, platform, known[1].fingerprint, settings.cpu_devices)
        manifest, stack = composition.manifest_probe(settings, composition.known_platform(settings, platform))
        composition.tell_stack(ledger, manifest, stack)

        def beat() -> None:
            ledger.worker_seen(worker_id, platform, stack.fingerprint, settings.cpu_devices)

        beat()
        loops = Loops([Loop("heartbeat", heartbeat_every_s(settings), beat)])
        loops.start()
        group = Group(folder / "logs", lambda line: console.print(line, highlight=False, markup=False), lambda _pids: None)
        group.stop_on_signals()
        try:
            group.start(_prefect_worker(settings, platform, prefect_api, worker_id, folder))
            console.print(f"worker {worker_id} serves {platform} (stack {stack.fingerprint[:12]})")
            group.watch(lambda: None)
        finally:
            group.stop()
            loops.stop()
            ledger.close()


def heartbeat_every_s(settings: Settings) -> float:
    """Seconds between two heartbeats: one that is late or lost must not make a living worker count as gone."""
    return min(LONGEST_BETWEEN_HEARTBEATS_S, settings.orphan_after_s / HEARTBEATS_WITHIN_SILENCE)


def own_id(folder: Path) -> str:
    """The worker's UUID, made once and kept in its data folder."""
    path = folder / "worker-id"
    try:
        return str(uuid.UUID(path.read_text().strip()))
    except (OSError, ValueError):
        made = str(uuid.uuid4())
        write_whole(path, made.encode())
        return made


def _prefect_worker(settings: Settings, platform: str, prefect_api: str, worker_id: str, folder: Path) -> ChildSpec:
    assert settings.ledger_url is not None and settings.worker_token is not None, "checked before"
    environment = worker_environment(
        settings,
        dict(os.environ),
        data_dir=folder,
        ledger_url=settings.ledger_url,
        token=settings.worker_token.get_secret_value(),
    )
    environment |= client_environment(prefect_api, folder / "prefect")
    arguments = (
        *("worker", "start", "--pool", pool_of(platform), "--type", "process"),
        *("--name", f"dayzero-{platform}-{worker_id[:8]}", "--limit", str(RUNS_AT_ONCE)),
    )
    return ChildSpec("prefect-worker", "prefect", arguments, environment)


if __name__ == "__main__":
    app()
