"""Steps as Prefect tasks: load, call one step, save; retried only where the error says that trying again may help."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.settings import get_current_settings
from prefect.tasks import Task

from dayzero.adapters.prefect.approving import PauseForApproval
from dayzero.adapters.prefect.artifacts import ByteProgress, RunPlace, show_report
from dayzero.adapters.prefect.states import step_state
from dayzero.app import run_step
from dayzero.domain.adaptation import Adaptation, Lease
from dayzero.domain.verdict import Verdict
from dayzero.errors import DayzeroError, MeasurementError
from dayzero.settings import load_settings
from dayzero.steps.contract import Bench, Step

RETRIES = 3
RETRY_DELAYS_S = [2.0, 8.0, 20.0]
LOG_LEVELS = {
    None: logging.INFO,
    Verdict.PASS: logging.INFO,
    Verdict.NOT_RUN: logging.WARNING,
    Verdict.ERROR: logging.ERROR,
    Verdict.FAIL: logging.ERROR,
}


def prefect_api_url() -> str:
    """The API that this process speaks to."""
    url = get_current_settings().api.url
    assert url, "a worker gives its runs PREFECT_API_URL"
    return url


def worth_retrying(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether the error in a failed state may go away by itself."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, DayzeroError) and error.retryable


def run_steps(bench: Bench, lease: Lease, adaptation: Adaptation, steps: Sequence[Step]) -> None:
    """Run the steps in order, each as a task; the first that raises ends it with its DayzeroError.

    A verdict ends its task red (or grey) and nothing else: the steps after it still run, and the entry is still derived.
    """
    for step in steps:
        _run_as_task(bench, lease, adaptation, step)


def _run_as_task(bench: Bench, lease: Lease, adaptation: Adaptation, step: Step) -> None:
    @task(
        name=step.name,
        task_run_name=step.title,
        retries=RETRIES,
        retry_delay_seconds=RETRY_DELAYS_S,
        retry_condition_fn=worth_retrying,
        cache_policy=NO_CACHE,
        persist_result=False,
        tags=[f"stage:{step.name}"],
    )
    def body() -> State[Any] | str:
        place = _place(adaptation)
        approve = PauseForApproval(place, load_settings().approve_timeout_s)
        watched = replace(bench, progress=ByteProgress(place, step.title), approve=approve)
        report = run_step(watched, lease, step)
        show_report(place, report)
        get_run_logger().log(LOG_LEVELS[report.verdict], "%s", report.headline)
        return step_state(report) or report.headline

    try:
        raised = body(return_state=True).result(raise_on_failure=False)
        if isinstance(raised, BaseException):
            raise raised
    except DayzeroError:
        raise
    except Exception as error:
        # A bug of a step must end the attempt with a reason, not burn every further attempt.
        get_run_logger().exception("step %s broke", step.name)
        raise MeasurementError(
            f"step {step.name} of {adaptation.model} on {adaptation.platform} broke: {type(error).__name__}: {error}",
            remedy="This is a fault of dayzero or of a plugin; the run's log has the traceback.",
        ) from error


def _place(adaptation: Adaptation) -> RunPlace:
    context = TaskRunContext.get()
    run = context.task_run if context else None
    return RunPlace(
        api_url=prefect_api_url(),
        flow_run_id=run.flow_run_id if run else None,
        task_run_id=run.id if run else None,
        subject=f"{adaptation.model} {adaptation.platform}",
    )
