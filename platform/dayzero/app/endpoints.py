"""A server that already runs, verified from outside."""

from dataclasses import dataclass

from dayzero.adapters.endpoints.asking import observe_endpoint
from dayzero.adapters.endpoints.client import Endpoint
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.codec import dump
from dayzero.domain.observed_endpoint import EndpointObserved
from dayzero.domain.verdict import Check, Measurement
from dayzero.settings import Settings
from dayzero.stages.judging.endpoints import endpoint_checks, endpoint_measurements, endpoint_verdict


@dataclass(frozen=True, slots=True)
class EndpointVerified:
    """What was observed of an endpoint and what it comes to; `deciding` is the check that the exit code stands for."""

    observed: EndpointObserved
    checks: tuple[Check, ...]
    measurements: tuple[Measurement, ...]
    deciding: Check


def verify_endpoint(settings: Settings, url: str, model: str | None, key: str | None) -> EndpointVerified:
    """Ask, judge, and keep every answer as evidence beside that of other checks, by its sha256."""
    with Endpoint(url, key) as endpoint:
        observed = observe_endpoint(endpoint, model)
    artifacts = FolderArtifacts(settings.data_dir / "artifacts")
    digest = artifacts.put(dump(observed), media_type="application/json", name="endpoint.json")
    checks = endpoint_checks(observed, (digest,))
    return EndpointVerified(observed, checks, endpoint_measurements(observed), endpoint_verdict(checks))
