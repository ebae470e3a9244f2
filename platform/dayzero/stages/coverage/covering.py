"""Coverage: which operators of an inventory a platform's manifest covers, how, and what is missing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dayzero.domain.bridges import Bridge
from dayzero.domain.canonical import digest
from dayzero.domain.findings import Finding
from dayzero.domain.operators import (
    CoverageKind,
    CoverageReport,
    GraphUse,
    OperatorCoverage,
    OperatorInventory,
    OperatorManifest,
)
from dayzero.domain.verdict import Grade
from dayzero.stages.coverage.engines import engine_routes
from dayzero.stages.coverage.figures import rank_figures, use_figures
from dayzero.stages.coverage.judge import GRADES, Answer, Asked, Judge, of_parts
from dayzero.stages.coverage.ranking import gaps_of

_WORST = (CoverageKind.MISSING, CoverageKind.FALLBACK, CoverageKind.DECOMPOSED, CoverageKind.CUSTOM, CoverageKind.NATIVE)
_Judged = list[tuple[GraphUse, Answer]]


def with_exclusions(manifest: OperatorManifest, exclusions: Mapping[str, str]) -> OperatorManifest:
    """The manifest with further operators that are known not to work, each with its reason."""
    return replace(manifest, excluded={**manifest.excluded, **exclusions})


@dataclass(frozen=True, slots=True)
class _Work:
    """What the whole model computes and moves, over all traced phases; parts of composites left out, or they counted twice."""

    flops: int
    moved: int

    def shares(self, uses: Iterable[GraphUse]) -> tuple[float, float]:
        flops = sum(use.flops or 0 for use in uses)
        moved = sum(use.bytes_moved or 0 for use in uses)
        return (flops / self.flops if self.flops else 0.0, moved / self.moved if self.moved else 0.0)


def cover(
    inventory: OperatorInventory,
    manifest: OperatorManifest,
    *,
    custom: Mapping[str, str | Bridge] | None = None,
    tp: int | None = None,
) -> CoverageReport:
    """How the manifest covers the inventory. `custom` maps operators that plugins bring for the platform to what they are,
    or to their verified bridges, which hold for the dtypes that they were verified in.

    An operator that is missing or excluded counts as decomposed only when a decomposition (of the manifest, or seen in the
    trace) leads, however deep, to parts that are all covered. Every other one is a gap. The parts of a composite
    that is offered itself are not needed and not listed. Kernel-level names are judged only where the manifest has kernels, by
    their figures on one of `tp` ranks (default: the degree of the trace); graph uses by the shapes that were traced.
    """
    judge = Judge(manifest, custom or {}, inventory.decompositions)
    degree = inventory.tp if tp is None else tp
    judged = _judged(inventory, judge)
    whole = [use for use in inventory.graph if use.part_of is None]
    work = _Work(sum(use.flops or 0 for use in whole), sum(use.bytes_moved or 0 for use in whole))
    groups: dict[tuple[str, tuple[str, ...], str], _Judged] = {}
    for use, answer in judged:
        groups.setdefault((use.name, use.dtypes, use.part_of or ""), []).append((use, answer))
    rows = [_row(members, work) for _, members in sorted(groups.items())]
    rows.extend(_kernel_rows(inventory, judge, degree))
    covered = sum(answer.kind is not CoverageKind.MISSING for _, answer in judged) / len(judged) if judged else None
    grade = min((row.grade for row in rows), key=GRADES.index, default=Grade.PREDICTED)
    return CoverageReport(
        manifest.platform, digest(manifest), grade, tuple(rows), gaps_of(rows, judge), covered,
        _findings(inventory, degree, answered=bool(judged)), degree, engine_routes(inventory, manifest.engines),
    )  # fmt: skip


def _findings(inventory: OperatorInventory, tp: int, *, answered: bool) -> tuple[Finding, ...]:
    if not answered:
        return (Finding("coverage.unknown", "graph", "nothing was traced: graph coverage is unknown"),)
    if tp != inventory.tp:
        message = f"graph uses were traced at tp {inventory.tp}, kernels are judged at tp {tp}"
        return (Finding("coverage.degrees_differ", "graph", message),)
    return ()


def _judged(inventory: OperatorInventory, judge: Judge) -> _Judged:
    """Every graph use that is needed, with its answer. A composite that is covered itself makes its parts needless."""
    parts: dict[tuple[str, str], list[GraphUse]] = {}
    for use in inventory.graph:
        if use.part_of is not None:
            parts.setdefault((use.part_of, use.phase), []).append(use)
    found: _Judged = []
    waiting = [use for use in inventory.graph if use.part_of is None]
    opened: set[tuple[str, str]] = set()
    while waiting:
        use = waiting.pop()
        inside = parts.get((use.name, use.phase), [])
        asked = Asked(frozenset(use.dtypes), use.phase, use_figures(use, inventory.symbols))
        itself = judge.itself(use.name, asked)
        if itself is not None or not inside or judge.stays_whole(use.name, asked):
            found.append((use, itself or judge.judge(use.name, asked)))
            continue
        if (use.name, use.phase) not in opened:
            opened.add((use.name, use.phase))
            waiting.extend(inside)
        found.append((use, _of_traced_parts(use, inside, asked, inventory, judge)))
    return found


def _of_traced_parts(use: GraphUse, inside: list[GraphUse], asked: Asked, inventory: OperatorInventory, judge: Judge) -> Answer:
    """A composite by the parts that it ran as in the trace."""
    answers: dict[str, Answer] = {}
    for part in sorted(inside, key=lambda part: part.name):
        answer = judge.judge(part.name, Asked(frozenset(part.dtypes), part.phase, use_figures(part, inventory.symbols)))
        if part.name not in answers or answer.kind is CoverageKind.MISSING:
            answers[part.name] = answer
    support = judge.offered.get(use.name)
    reason = judge.refusal(use.name, asked) or (
        f"not in the manifest of {judge.provider}" if support is None else f"{judge.provider} makes it of other operators"
    )
    return of_parts(answers, reason, Grade.DECLARED if support is None else support.grade)


def _row(members: _Judged, work: _Work) -> OperatorCoverage:
    """One operator in one combination of dtypes; where its uses differ, the worst counts."""
    uses = [use for use, _ in members]
    answer = min((answer for _, answer in members), key=lambda answer: _WORST.index(answer.kind))
    modules = sorted({module for use in uses for module in use.modules})
    flops, moved = work.shares(uses)
    phases = tuple(sorted({use.phase for use in uses}))
    return OperatorCoverage(
        uses[0].name, uses[0].dtypes, answer.kind, answer.grade, answer.why, sum(use.count for use in uses), tuple(modules),
        flops, moved, phases, uses[0].part_of,
    )  # fmt: skip


def _kernel_rows(inventory: OperatorInventory, judge: Judge, tp: int) -> list[OperatorCoverage]:
    manifest = judge.manifest
    spoken = set(judge.offered) | set(manifest.excluded) | set(judge.custom)
    families = {name.split(".", 1)[0] for name in judge.offered if not name.startswith("aten.")}
    answers: dict[str, tuple[int, Answer]] = {}
    for kernel in inventory.kernels:
        if kernel.name not in spoken and kernel.name.split(".", 1)[0] not in families:
            continue
        answer = judge.judge(kernel.name, Asked(figures=rank_figures(kernel, tp)))
        layers, known = answers.get(kernel.name, (0, answer))
        worse = min((known, answer), key=lambda one: _WORST.index(one.kind))
        answers[kernel.name] = (layers + kernel.layers, worse)
    return [
        OperatorCoverage(name, (), answer.kind, answer.grade, answer.why, layers, (), 0.0)
        for name, (layers, answer) in sorted(answers.items())
    ]
