"""Operator calls that are known of this stack are not run on drawn inputs again; what a run adds is kept for the next model."""

from dataclasses import dataclass, replace

from dayzero.codec import load
from dayzero.domain.observations import CheckName, OperatorErrors
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.runs import RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.errors import BadInputError
from dayzero.ports.running import Runner
from dayzero.stages.judging.sampled import facts_of
from dayzero.stages.platforms.sampled import known_calls, samples_key
from dayzero.steps.contract import Bench

DEVICE = "device"
"""The component of a told stack that says what its device was told of itself; a runner does not know it."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The manifest of this worker's own stack, and the key that its samples are kept under."""

    manifest: OperatorManifest
    stack: Stack
    under: str


def with_known_calls(bench: Bench, runner: Runner, request: RunRequest) -> RunRequest:
    """The request with the calls that are known of this stack on its platform; none where another stack was told."""
    told = _own(bench, runner, request.platform)
    return request if told is None else replace(request, known_calls=known_calls(told.manifest, told.under))


def keep_samples(bench: Bench, runner: Runner, request: RunRequest, document: bytes) -> int:
    """Add what a completed run showed of the platform's own operators to its manifest; how many calls were new."""
    told = _own(bench, runner, request.platform)
    try:
        facts = facts_of(load(OperatorErrors, document))
    except BadInputError:
        return 0  # a document that cannot be read is an error of the run, and is judged as one
    if told is None or not facts:
        return 0
    bench.ledger.add_samples(told.stack, told.under, facts)
    return len(facts)


def that_tell(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks without the one over drawn inputs where every call is the host's own kernel's: it is recorded as not run, and
    nobody can do anything about it, so no headline and no rehearsal speaks of it."""
    name = CheckName.OPERATORS_DISTRIBUTIONS.value
    return tuple(check for check in checks if check.check != name or check.verdict is not Verdict.NOT_RUN) or checks


def _own(bench: Bench, runner: Runner, platform: str) -> _Told | None:
    """What was told of the platform, where it was told of the stack that the runner runs in."""
    profile, offered = bench.profiles.get(platform), bench.ledger.manifest(platform)
    if profile is None or offered is None:
        return None
    manifest, stack = offered
    components = {name: version for name, version in stack.components.items() if name != DEVICE}
    if components != dict(runner.stack().components):
        return None
    return _Told(manifest, stack, samples_key(profile, stack))
