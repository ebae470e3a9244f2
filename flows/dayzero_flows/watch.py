"""Look at the watched sources."""

from prefect import flow, get_run_logger

from dayzero import app
from dayzero.settings import load_settings


@flow(name="watch", flow_run_name="poll the watched sources", persist_result=False)
def watch() -> None:
    """Poll every source once."""
    with app.control_plane(load_settings()) as plane:
        get_run_logger().info("%s", app.poll_once(plane))
