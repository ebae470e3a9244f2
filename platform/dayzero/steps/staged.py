"""What a pre-stage knows and what it leaves, for one screen and for programs."""

from collections.abc import Sequence
from dataclasses import dataclass

from dayzero.domain.canonical import Json, plain
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.verdict import Check, Verdict
from dayzero.errors import ExitCode
from dayzero.stages.entries.left import REHEARSAL
from dayzero.steps.concluding import Found, Outcome
from dayzero.steps.documents import columns_of
from dayzero.steps.planning import plan_headline
from dayzero.steps.prestaging import structure_report
from dayzero.steps.waiting import no_manifest_reason, no_worker_reason


@dataclass(frozen=True, slots=True)
class Staged:
    """One platform's pre-stage: how it ended, and the nouns that it found."""

    platform: str
    outcome: Outcome
    found: Found


def common_lines(found: Found) -> tuple[str, ...]:
    """What is known of the model on every platform, a line each."""
    lines: list[str] = []
    if found.spec is not None:
        parameters, state = found.spec.parameters, found.spec.state
        lines.append(structure_report(found.spec, reused=False).headline)
        active = "unknown" if parameters.active is None else f"{parameters.active:,}"
        growth = "unknown" if state.bytes_per_token is None else f"{state.bytes_per_token:,}"
        lines.append(
            f"active parameters {active}; state {growth} bytes a token ({state.dtype}); dtype {found.spec.native_dtype}"
        )
    if found.inventory is not None:
        names = {use.name for use in found.inventory.graph}
        traced = f"{len(names)} graph operators ({found.inventory.traced_with})" if names else "graph level unknown"
        lines.append(f"{len(found.inventory.kernels)} kernel-level operators; {traced}")
    if found.reduction is not None:
        size = found.reduction
        lines.append(f"rehearsed as {size.layers} layers of {size.kinds} kinds with {len(size.changes)} fields reduced")
    return tuple(lines)


def known_rows(staged: Sequence[Staged]) -> tuple[dict[str, str], ...]:
    """Known things as rows, platforms as columns."""
    columns = {one.platform: _known(one) for one in staged}
    names = list(dict.fromkeys(name for known in columns.values() for name in known))
    return tuple({"known": name, **{platform: known.get(name, "–") for platform, known in columns.items()}} for name in names)


def _known(staged: Staged) -> dict[str, str]:
    found, entry = staged.found, staged.outcome.entry
    known = {"stands": f"{staged.outcome.adaptation.state.value}, {entry.lifecycle.value}" if entry else "no entry"}
    if found.coverage is not None:
        share = "unknown" if found.coverage.graph_coverage is None else f"{found.coverage.graph_coverage:.1%}"
        gaps = found.coverage.gaps
        known["coverage"] = f"{share} of graph uses, {found.coverage.grade.value}; {len(gaps)} gaps"
        if gaps:
            known["first gaps"] = ", ".join(gap.operator for gap in gaps[:3])
    if found.plan is not None:
        known["plan"] = plan_headline(found.plan)
    for check in entry.checks if entry else ():
        if check.check.startswith(REHEARSAL) or (found.coverage is None and check.check == "operators.coverage"):
            known[check.check] = f"{check.verdict.value}: {_short(check, staged.platform)}"
    return known


def _short(check: Check, platform: str) -> str:
    """The reason; what waits for the platform is said in two words, for it is said in full below."""
    waits = {no_worker_reason(platform): "waits for a worker", no_manifest_reason(platform): "waits for a manifest"}
    reason = waits.get(check.reason, check.reason)
    return reason if len(reason) <= 120 else reason[:117] + "…"


def left_rows(staged: Sequence[Staged]) -> tuple[dict[str, str], ...]:
    """What is left for the day: one row a thing, with the platforms that it is left on."""
    left: dict[str, list[str]] = {}
    for one in staged:
        for sentence in _merged(one.outcome.entry):
            left.setdefault(sentence.replace(one.platform, "PLATFORM") if len(staged) > 1 else sentence, []).append(
                one.platform
            )
    return tuple({"left": sentence, "on": ", ".join(platforms)} for sentence, platforms in left.items())


def _merged(entry: CompatibilityEntry | None) -> tuple[str, ...]:
    """The entry's list; checks that did not pass for the same reason in one sentence."""
    if entry is None:
        return ()
    same: dict[str, list[str]] = {}
    for check in entry.checks:
        if check.verdict is not Verdict.PASS:
            same.setdefault(check.reason, []).append(check.check)
    single = {f"{names[0]}: {reason}": f"{', '.join(names)}: {reason}" for reason, names in same.items()}
    dropped = {f"{name}: {reason}" for reason, names in same.items() for name in names[1:]}
    return tuple(single.get(sentence, sentence) for sentence in entry.left if sentence not in dropped)


def staged_document(staged: Staged) -> Json:
    """One platform in `dayzero announce --json`."""
    found, entry = staged.found, staged.outcome.entry
    return {
        "platform": staged.platform,
        "adaptation": staged.outcome.adaptation.id,
        "state": staged.outcome.adaptation.state.value,
        "reason": staged.outcome.reason,
        "entry": None if entry is None else {**columns_of(entry), "grade": entry.grade.value, "reason": entry.reason},
        "checks": [] if entry is None else plain(entry.checks),
        "gaps": [] if entry is None else plain(entry.gaps),
        "plan": None if found.plan is None or found.plan.plan is None else str(found.plan.plan.degrees),
        "reduction": None if found.reduction is None else plain(found.reduction.changes),
        "left": [] if entry is None else plain(entry.left),
    }


def exit_code_of_staged(staged: Sequence[Staged]) -> ExitCode:
    """1 where a verdict is fail, 3 where something could not be measured or waits for its platform, else 0."""
    verdicts = {check.verdict for one in staged if one.outcome.entry for check in one.outcome.entry.checks}
    errors = [one.outcome.error for one in staged if one.outcome.error is not None]
    if errors:
        return errors[0].exit_code
    if Verdict.FAIL in verdicts:
        return ExitCode.VERDICT_FAIL
    return ExitCode.NOT_MEASURED if {Verdict.ERROR, Verdict.NOT_RUN} & verdicts else ExitCode.OK
