"""The control plane's process in `dayzero up`: HTTP door, watcher, reconciler and dispatcher."""

import logging

import uvicorn

from dayzero import app
from dayzero.adapters.prefect.ensure import ensure, is_complete
from dayzero.adapters.prefect.orchestrator import BEGIN_WITHIN_S, PrefectOrchestrator, bury_unattended
from dayzero.adapters.processes.loops import Loop, Loops
from dayzero.errors import DayzeroError
from dayzero.settings import Settings, load_settings
from dayzero.steps.reconciling import ReconcileReport
from dayzero.web.door import create_app
from dayzero.web.limiting import limits_from
from dayzero.web.routers import all_routers

TELL_EVERY_S = 1.0
RESTORE_EVERY_S = 15.0
logger = logging.getLogger("dayzero.control")


def serve(settings: Settings) -> None:
    """Serve until SIGTERM. Losing Prefect stops neither the door nor the loops."""
    assert settings.prefect_api_url, "`dayzero up` names the Prefect API"
    api_url = settings.prefect_api_url
    with app.control_plane(settings) as plane, app.sign_in_of(plane) as sign_in:
        patience_s = max(settings.orphan_after_s, BEGIN_WITHIN_S)
        orchestrator = PrefectOrchestrator(api_url, settings.platforms, unclaimed_after_s=patience_s)
        begin_anew(api_url, settings)
        reconciler = Reconciler(plane, orchestrator)
        loops = Loops(
            [
                Loop("watch", settings.poll_interval_s, lambda: app.poll_once(plane)),
                Loop("reconcile", settings.reconcile_interval_s, reconciler.round),
                Loop("emit", TELL_EVERY_S, lambda: app.emit_once(plane, orchestrator)),
                Loop("fan-out", TELL_EVERY_S, lambda: app.fan_out(plane)),
                Loop("age", settings.age_interval_s, lambda: age(plane)),
                Loop("restore", RESTORE_EVERY_S, lambda: restore(api_url, settings)),
                *(Loop(f"tell-{lane}", TELL_EVERY_S, lambda: tell(plane)) for lane in range(settings.telling_lanes)),
            ]
        )
        loops.start()
        try:
            reading = app.reading_is_open(settings)
            routers = all_routers(
                plane,
                open_reading=reading,
                run_url=orchestrator.run_url,
                public_url=settings.public_url,
                sign_in=sign_in,
            )
            door = create_app(plane, routers, limits=limits_from(settings))
            uvicorn.run(door, host=settings.host, port=settings.port, log_level="warning", access_log=False, ws="none")
        finally:
            loops.stop()


class Reconciler:
    """Rounds of the reconciler; what one did is told once, though a start shows in every round until its run claims it."""

    def __init__(self, plane: app.Plane, orchestrator: PrefectOrchestrator) -> None:
        self._plane = plane
        self._orchestrator = orchestrator
        self._told = ReconcileReport((), (), ())

    def round(self) -> None:
        """One round."""
        report = app.reconcile_once(self._plane, self._orchestrator)
        if report != self._told and report != ReconcileReport((), (), ()):
            logger.info("%s", report)
        self._told = report


def age(plane: app.Plane) -> None:
    """One look for what grew old; the queue is let go a little."""
    for marked in app.age_once(plane):
        logger.info("%s on %s is stale: %s", marked.entry.model, marked.entry.platform, marked.why)
    if started := app.rerun_once(plane):
        logger.info("run again: %s", ", ".join(started))


def tell(plane: app.Plane) -> None:
    """One round of telling subscribers; what went wrong is told."""
    for problem in app.serve_lanes(plane).problems:
        logger.info("%s", problem)


def restore(api_url: str, settings: Settings) -> None:
    """Make again what Prefect has lost, or never had."""
    try:
        if not is_complete(api_url, settings.platforms):
            ensure(api_url, settings.platforms, poll_interval_s=settings.poll_interval_s)
    except DayzeroError as error:
        logger.warning("%s", error)


def begin_anew(api_url: str, settings: Settings) -> None:
    """Bring what is in Prefect up to date, and tell the truth about runs that died with a former control plane."""
    try:
        ensure(api_url, settings.platforms, poll_interval_s=settings.poll_interval_s)
        bury_unattended(api_url)
    except DayzeroError as error:
        logger.warning("%s", error)


def main() -> None:
    """Entry of the process."""
    # Prefect configures the root logger when it is imported; our lines go their own way.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    ours = logging.getLogger("dayzero")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    serve(load_settings())


if __name__ == "__main__":
    main()
