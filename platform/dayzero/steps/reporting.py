"""Reading what a report needs: evidence by its sha256, the plan and the stack by the adaptation, files out of the bundle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.entry import CompatibilityEntry, Freshness
from dayzero.domain.entry_report import REPORT_SCHEMA, DeployFile, Report
from dayzero.domain.observations import CheckName, LayerErrors, MemoryObserved, OperatorErrors
from dayzero.domain.observed_decoding import DecodeErrors
from dayzero.domain.observed_parallel import ParallelObserved
from dayzero.domain.plan import PlanReport
from dayzero.domain.platforms import Stack
from dayzero.domain.release import Release
from dayzero.domain.results import StoredResult
from dayzero.domain.stacks import INSTALLED, StackChoice, StackRecipe, over
from dayzero.domain.verdict import Check
from dayzero.errors import BadInputError, DayzeroError
from dayzero.ports.hub import ArtifactStore
from dayzero.ports.ledger import Ledger
from dayzero.stages.reporting.assembling import Evidence, Known, report_of
from dayzero.steps.bundles import bundled_files
from dayzero.steps.concluding import entry_of
from dayzero.steps.contract import Bench
from dayzero.steps.stacks import STACK

READ: dict[str, type[Evidence]] = {
    CheckName.OPERATORS_FLOAT64.value: OperatorErrors,
    CheckName.LAYERS_THREE_WAY.value: LayerErrors,
    CheckName.DECODING_THREE_WAY.value: DecodeErrors,
    CheckName.MEMORY_MODEL.value: MemoryObserved,
    CheckName.PARALLEL_LOGITS.value: ParallelObserved,
}
"""What the evidence of a check is; other checks say all of theirs in their figures."""

MOST_BYTES = 64 << 20
DEPLOYED = ("launch.sh", "compose.yaml", "requirements.txt")
MOST_CHARACTERS = 20_000


def report_here(bench: Bench, lease: Lease, entry: CompatibilityEntry | None = None) -> Report:
    """The report of a run by its own ledger: what it found so far."""
    entry = entry or entry_of(bench, lease)
    adaptation = bench.ledger.adaptation(lease.adaptation_id)
    offered = bench.ledger.manifest(adaptation.platform)
    release = bench.ledger.release(adaptation.release_id)
    return gathered(entry, bench.ledger, lease.adaptation_id, (offered[1],) if offered else (), release)


def gathered(
    entry: CompatibilityEntry,
    ledger: Ledger,
    adaptation_id: str | None,
    stacks: Sequence[Stack],
    release: Release | None = None,
    artifacts: ArtifactStore | None = None,
) -> Report:
    """The report of an entry; `stacks` are those that its platform told of, `artifacts` hold its bundle."""
    newest = {one.key.stage: one for one in ledger.linked_results(adaptation_id)} if adaptation_id else {}
    evidence, unread = _evidence(entry.checks, ledger)
    plan = _plan(newest)
    known = Known(
        evidence=evidence,
        plan=plan if plan is not None and plan.plan is not None and plan.plan.degrees == entry.key.plan else None,
        stack=_packages(entry, stacks, newest.get(STACK)),
        deploy=_deployed(artifacts, entry.bundle),
        unread=unread,
        release=None if release is None else f"{release.hub.value}:{release.repo_id}@{release.revision}",
    )
    return report_of(entry, known)


def _plan(newest: dict[str, StoredResult]) -> PlanReport | None:
    stored = newest.get("plan.weights") or newest.get("plan")
    return None if stored is None else load(PlanReport, stored.document)


def _evidence(checks: Sequence[Check], ledger: Ledger) -> tuple[tuple[tuple[Check, Evidence], ...], tuple[str, ...]]:
    """The documents behind the checks, and why some could not be read. A run that did not complete left a log instead."""
    found: list[tuple[Check, Evidence]] = []
    unread = []
    for check in checks:
        noun = READ.get(check.check)
        if noun is None or not check.evidence:
            continue
        try:
            document = ledger.artifact(check.evidence[0])
            if document.lstrip()[:1] != b"{":
                continue
            if len(document) > MOST_BYTES:
                raise BadInputError(f"{len(document):,} bytes are more than the {MOST_BYTES:,} that a page reads.")
            found.append((check, load(noun, document)))
        except DayzeroError as error:
            unread.append(f"{check.check} ({check.rung}): {error.message}")
    return tuple(found), tuple(unread)


def _packages(entry: CompatibilityEntry, stacks: Sequence[Stack], choice: StoredResult | None) -> dict[str, str]:
    """The components of the entry's stack: that of its fingerprint, under the recipe that was laid over it."""
    recipe: StackRecipe = INSTALLED
    if choice is not None:
        recipe = load(StackChoice, choice.document).recipe or INSTALLED
    for stack in stacks:
        if over(stack, recipe).fingerprint == entry.key.stack_fingerprint:
            pins = {pin.name: pin.version for pin in recipe.pins}
            return {**over(stack, recipe).components, **pins}
    return {}


def _deployed(artifacts: ArtifactStore | None, bundle: str | None) -> tuple[DeployFile, ...]:
    if artifacts is None:
        return ()
    files = bundled_files(artifacts, bundle, lambda path: path in DEPLOYED or path.startswith("start-"))
    order = {path: number for number, path in enumerate(DEPLOYED)}
    return tuple(
        DeployFile(path, data.decode(errors="replace")[:MOST_CHARACTERS])
        for path, data in sorted(files.items(), key=lambda file: (order.get(file[0], len(order)), file[0]))
    )


def read_report(document: bytes, name: str) -> Report:
    """A report out of its file; BadInputError when it is none."""
    try:
        told = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{name} is no JSON.", remedy="`dayzero verify … --report FILE.json` writes one.") from error
    schema = told.get("schema") if isinstance(told, dict) else None
    if schema != REPORT_SCHEMA:
        said = repr(schema)[:60]
        raise BadInputError(
            f"{name} has the schema {said}, not {REPORT_SCHEMA}.", remedy="`dayzero verify … --report FILE.json` writes one."
        )
    return load(Report, document)


def identified(report: Report, row: Mapping[str, object]) -> Report:
    """The report with what the list knows of it: its id, when it was recorded, and whether it has grown old since."""
    entry = replace(report.entry, freshness=Freshness(str(row["freshness"])))
    recorded = row.get("recorded_at")
    at = recorded if isinstance(recorded, datetime) else None
    return replace(report, entry=entry, entry_id=str(row["entry_id"]), recorded_at=at)
