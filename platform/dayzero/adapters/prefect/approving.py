"""A run that waits for somebody: paused in Prefect, with the estimate beside, until it is resumed or cancelled."""

import logging

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run

from dayzero.adapters.prefect.artifacts import RunPlace, show_report
from dayzero.domain.reports import StepReport
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BlockedError
from dayzero.stages.transfer.estimating import estimate_sentence

LOOK_EVERY_S = 5
logger = logging.getLogger(__name__)


class PauseForApproval:
    """Pauses the current flow run over an estimate; callable as Bench.approve. Resuming the run approves.

    BlockedError when nobody resumed it in `timeout_s`.
    """

    def __init__(self, place: RunPlace, timeout_s: float) -> None:
        self._place, self._timeout_s = place, timeout_s

    def __call__(self, estimate: TransferEstimate) -> None:
        """Show the estimate, wait for the resume."""
        sentence = estimate_sentence(estimate)
        show_report(self._place, StepReport("approval", f"Waits for approval: {sentence}", reused=False, notes=estimate.notes))
        logger.warning("waits for approval: %s Resume this run to approve, cancel it to refuse.", sentence)
        try:
            pause_flow_run(timeout=int(self._timeout_s), poll_interval=LOOK_EVERY_S, key="transfer")
        except FlowPauseTimeout as error:
            raise BlockedError(
                f"nobody approved within {self._timeout_s:g} s: {sentence}",
                remedy="Start it again and resume its run in Prefect, or raise DAYZERO_APPROVE_BELOW_BYTES.",
            ) from error
