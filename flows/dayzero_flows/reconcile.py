"""Start at once what the reconciler's next round would start."""

from prefect import flow, get_run_logger

from dayzero import app
from dayzero.adapters.prefect.orchestrator import PrefectOrchestrator
from dayzero.settings import load_settings
from dayzero_flows.stepping import prefect_api_url


@flow(name="reconcile", flow_run_name="reconcile", persist_result=False)
def reconcile() -> None:
    """One round of the reconciler; it may run beside the loop's own rounds, since starts are idempotent."""
    with app.control_plane(load_settings()) as plane:
        orchestrator = PrefectOrchestrator(prefect_api_url(), plane.settings.platforms)
        get_run_logger().info("%s", app.reconcile_once(plane, orchestrator))
