"""Every router of the door, in the order in which paths are tried."""

from collections.abc import Sequence
from typing import Protocol

from fastapi import APIRouter, Depends

from dayzero.adapters.notify.choose import new_secret
from dayzero.steps.signing_in import SignIn
from dayzero.web.api import Listed, api_router
from dayzero.web.claims import Said, reports_router
from dayzero.web.clocks import clocks_router
from dayzero.web.entry import Evident, RunUrl, entry_router
from dayzero.web.failures import Remembering, failures_router
from dayzero.web.feeds import Telling as Fed
from dayzero.web.feeds import feeds_router
from dayzero.web.matrix import matrix_router
from dayzero.web.method import method_router
from dayzero.web.queue import Ageing, queue_router
from dayzero.web.releases import releases_router
from dayzero.web.runs import runs_router
from dayzero.web.session import session_router
from dayzero.web.signing_in import signing_in_router
from dayzero.web.subscribing import Telling, subscribing_router
from dayzero.web.viewers import viewer_from


class Whole(Listed, Evident, Fed, Telling, Said, Remembering, Ageing, Protocol):
    """The control plane as all of them need it."""


def all_routers(
    plane: Whole,
    *,
    open_reading: bool = True,
    run_url: RunUrl | None = None,
    public_url: str | None = None,
    sign_in: SignIn | None = None,
) -> Sequence[APIRouter]:
    """Pages and API. Where reading is not open, each asks for a token; `run_url` says where Prefect shows an adaptation,
    `sign_in` where people sign in."""
    eyes = viewer_from(plane.access, open_reading=open_reading)
    return (
        api_router(plane, eyes),
        matrix_router(plane, eyes),
        releases_router(plane, eyes),
        runs_router(plane, eyes),
        queue_router(plane, eyes),
        clocks_router(plane, eyes),
        failures_router(plane, eyes),
        session_router(plane.access, sign_in),
        *((signing_in_router(sign_in),) if sign_in is not None else ()),
        feeds_router(plane, eyes, public_url),
        subscribing_router(plane, new_secret),
        reports_router(plane, eyes),
        entry_router(plane, Depends(eyes), run_url),
        method_router(),
    )
