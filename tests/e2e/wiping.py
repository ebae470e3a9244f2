"""Ways to lose everything that Prefect knows."""

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import psycopg
from prefect.exceptions import ObjectNotFound
from sqlalchemy.engine import make_url

from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.store import embedded
from e2e.scenario import Scenario

PREFECT_DATABASE = "prefect"


def wipe_through_api(api_url: str) -> dict[str, int]:
    """Delete every run, deployment, flow, automation and pool while they are in use; how many there were of each."""
    with prefect_client(api_url) as client:
        there: dict[str, tuple[list[UUID], Callable[[UUID], object]]] = {
            "flow runs": ([run.id for run in client.read_flow_runs(limit=200)], client.delete_flow_run),
            "deployments": ([deployment.id for deployment in client.read_deployments()], client.delete_deployment),
            "flows": ([flow.id for flow in client.read_flows()], client.delete_flow),
            "automations": ([automation.id for automation in client.read_automations()], client.delete_automation),
        }
        for ids, delete in there.values():
            for each in ids:
                # Deleting one thing may take others along.
                with suppress(ObjectNotFound):
                    delete(each)
        pools = client.read_work_pools()
        for pool in pools:
            client.delete_work_pool(pool.name)
    return {name: len(ids) for name, (ids, _) in there.items()} | {"pools": len(pools)}


def drop_prefect_database(group: Scenario) -> None:
    """Drop the whole database of a Prefect server that does not run."""
    with embedded.running(group.data_dir) as url:
        server = make_url(url).set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
        with psycopg.connect(server, autocommit=True) as connection:
            names = [row[0] for row in connection.execute("SELECT datname FROM pg_database").fetchall()]
            assert PREFECT_DATABASE in names
            connection.execute(f"DROP DATABASE {PREFECT_DATABASE} WITH (FORCE)".encode())
