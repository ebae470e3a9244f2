"""What degrees a structure allows, each refusal with its figures."""

from collections.abc import Iterator

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import Rejection
from dayzero.domain.planning import Degrees
from dayzero.stages.layout.partition import expert_slices, stage_layers
from dayzero.stages.layout.rules_mixers import HEADS, KV_HEADS, mixer_runs
from dayzero.stages.layout.runs import Run
from dayzero.stages.structure.families import family_of, sharding_known, sharding_proven

_FAMILIES = {HEADS: "heads", KV_HEADS: "kv heads"}
_ORDER = (HEADS, KV_HEADS)

_Reason = tuple[str, str, dict[str, int | float | str | None]]


def violations(spec: ModelSpec, degrees: Degrees, redundant_experts: int = 0, *, proven: bool = False) -> tuple[Rejection, ...]:
    """Every structural reason against the degrees; () when there is none. Redundant experts are spread like the others.

    With `proven`, rules that no parallel run has proven are a reason too: what this project's own ranks may run.
    """
    return Limits(spec).violations(degrees, redundant_experts, proven=proven)


class Limits:
    """What one structure allows, read once: for a search over many degrees."""

    def __init__(self, spec: ModelSpec) -> None:
        self._name = spec.model_type or spec.architecture or "unnamed"
        self._known, self._proven = sharding_known(spec), sharding_proven(spec)
        self._layers = len(spec.layers)
        family = family_of(spec)
        self._halves = family is not None and family.experts == "first_half"
        mixers = {mixer for layer in spec.layers for mixer in layer.mixers}
        forwards = {layer.feed_forward for layer in spec.layers if layer.feed_forward is not None}
        self._runs = sorted(_merged({run for mixer in mixers for run in mixer_runs(mixer)}), key=_order)
        self._experts = sorted({forward.routed_experts for forward in forwards} - {0})
        routed = {forward for forward in forwards if forward.routed_experts}
        dense = {forward.intermediate_size or 0 for forward in forwards - routed} | {one.dense_size or 0 for one in routed}
        self._dense = sorted(dense - {0})
        self._shared = sorted({forward.shared_intermediate_size or 0 for forward in forwards} - {0})
        self._columns = sorted({forward.intermediate_size or 0 for forward in routed} - {0})
        self._by_tp: dict[int, tuple[_Reason, ...]] = {}

    def violations(self, degrees: Degrees, redundant_experts: int = 0, *, proven: bool = False) -> tuple[Rejection, ...]:
        """Every structural reason against the degrees (see the function of that name)."""
        reasons = self._reasons(degrees, redundant_experts, proven)
        return tuple(Rejection(degrees, family, reason, numbers) for family, reason, numbers in reasons)

    def _reasons(self, degrees: Degrees, redundant: int, proven: bool) -> Iterator[_Reason]:
        parallel = max(degrees.tp, degrees.pp, degrees.ep, degrees.etp) > 1
        if not self._known:
            if parallel:
                yield "unknown architecture", f"no sharding rules are known for {self._name}; it is whole on every rank", {}
            return
        if proven and parallel and not self._proven:
            yield ("unproven rules", f"the sharding rules of {self._name} are derived from its structure and not proven: ranks "
                   "are not run by them", {})  # fmt: skip
        yield from self._stages(degrees.pp)
        yield from self._tensor(degrees.tp)
        slices = expert_slices(degrees)
        if slices > 1:
            yield from _uneven(
                "expert size", "columns of an expert", self._columns, slices, "tp" if degrees.etp == 1 else "etp"
            )
        if degrees.ep > 1 or degrees.etp > 1:
            yield from self._expert(degrees, redundant)

    def _stages(self, pp: int) -> Iterator[_Reason]:
        if pp > self._layers:
            yield "layers", f"{self._layers} layers do not fill pp {pp} stages", {"layers": self._layers, "pp": pp}
        elif self._halves and any(first % 2 for first, _ in stage_layers(self._layers, pp)):
            yield ("layers", f"{self._layers // 2} layers of two halves each are cut within a layer by pp {pp}",
                   {"layers": self._layers // 2, "pp": pp})  # fmt: skip

    def _tensor(self, tp: int) -> tuple[_Reason, ...]:
        if tp not in self._by_tp:
            self._by_tp[tp] = tuple(self._tensor_reasons(tp)) if tp > 1 else ()
        return self._by_tp[tp]

    def _tensor_reasons(self, tp: int) -> Iterator[_Reason]:
        for run in self._runs:
            if run.range_of(0, tp) is None:
                more = f", nor tp {tp} by them" if run.shared and tp > run.units else ""
                reason = f"{run.units} {run.what} do not divide by tp {tp}{more}"
                yield _FAMILIES.get(run.what, run.what), reason, {"size": run.units, "tp": tp}
        yield from _uneven("intermediate size", "feed-forward columns", self._dense, tp, "tp")
        yield from _uneven("shared expert size", "shared expert columns", self._shared, tp, "tp")

    def _expert(self, degrees: Degrees, redundant: int) -> Iterator[_Reason]:
        ep, etp, group = degrees.ep, degrees.etp, degrees.tp * degrees.dp
        if not self._experts:
            yield "experts", f"the model has no routed experts for ep {ep}", {"ep": ep}
        for count in self._experts:
            numbers: dict[str, int | float | str | None] = {"experts": count, "redundant": redundant, "ep": ep}
            if (count + redundant) % ep:
                beside = f" and {redundant} redundant ones" if redundant else ""
                yield "experts", f"{count} experts{beside} do not divide by ep {ep}", numbers
            elif ep > 1 and redundant > count * (ep - 1):
                yield "experts", f"{redundant} redundant experts put one of {count} on a rank twice at ep {ep}", numbers
        if (ep * etp) % degrees.tp or group % (ep * etp):
            what = f"ep {ep}" if etp == 1 else f"ep × etp = {ep * etp}"
            yield ("expert group", f"{what} must be a multiple of tp {degrees.tp} and divide tp × dp = {group}",
                   {"ep": ep, "etp": etp, "tp": degrees.tp, "group": group})  # fmt: skip


def _merged(runs: set[Run]) -> set[Run]:
    """Runs that say the same of a degree are one."""
    return {Run(run.units, run.units, run.what, run.shared) for run in runs}


def _order(run: Run) -> tuple[int, str, int]:
    return (_ORDER.index(run.what) if run.what in _ORDER else len(_ORDER), run.what, run.units)


def _uneven(family: str, what: str, sizes: list[int], parts: int, degree: str) -> Iterator[_Reason]:
    for size in sizes:
        if size % parts:
            yield family, f"{size} {what} do not divide by {degree} {parts}", {"size": size, degree: parts}
