"""A synchronous Prefect client whose errors speak to the operator."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import ObjectNotFound

from dayzero.errors import DependencyError, UnavailableError

TIMEOUT_S = 30.0


@contextmanager
def prefect_client(api_url: str) -> Iterator[SyncPrefectClient]:
    """A client of that API. UnavailableError: it does not answer, or lacks what `ensure` makes; DependencyError: it refuses."""
    settings = {"timeout": httpx.Timeout(TIMEOUT_S), "trust_env": False}
    try:
        with SyncPrefectClient(api=api_url, httpx_settings=settings) as client:
            yield client
    except httpx.TransportError as error:
        raise UnavailableError(
            f"the Prefect server at {api_url} does not answer ({type(error).__name__}).",
            remedy="Start it with `dayzero up`, or correct DAYZERO_PREFECT_API_URL.",
        ) from error
    except ObjectNotFound as error:
        raise UnavailableError(
            f"the Prefect server at {api_url} has lost dayzero's deployments.",
            remedy="A running `dayzero up` makes them again; otherwise start it.",
        ) from error
    except httpx.HTTPStatusError as error:
        kind = UnavailableError if error.response.is_server_error else DependencyError
        raise kind(
            f"the Prefect server at {api_url} answered {error.response.status_code} to {error.request.url.path}.",
            remedy="Its log says why.",
        ) from error
