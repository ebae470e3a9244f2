"""What degrees a structure allows, each refusal with its figures. The rules are those of tensor parallelism in transformers:
whole heads and whole key-value heads a rank, equal slices of every feed-forward, whole experts by ep."""

from collections.abc import Iterator

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import Rejection
from dayzero.domain.planning import Degrees
from dayzero.stages.structure_families import sharding_known


def violations(spec: ModelSpec, degrees: Degrees, redundant_experts: int = 0) -> tuple[Rejection, ...]:
    """Every structural reason against the degrees; () when there is none. Redundant experts are spread like the others."""
    reasons = _violations(spec, degrees, redundant_experts)
    return tuple(Rejection(degrees, family, reason, numbers) for family, reason, numbers in reasons)


_Reason = tuple[str, str, dict[str, int | float | str | None]]


def _violations(spec: ModelSpec, degrees: Degrees, redundant: int) -> Iterator[_Reason]:
    tp, pp, ep = degrees.tp, degrees.pp, degrees.ep
    if not sharding_known(spec):
        if max(tp, pp, ep) > 1:
            name = spec.model_type or spec.architecture or "unnamed"
            yield "unknown architecture", f"no sharding rules are known for {name}; it is whole on every rank", {}
        return
    if pp > len(spec.layers):
        yield "layers", f"{len(spec.layers)} layers do not fill pp {pp} stages", {"layers": len(spec.layers), "pp": pp}
    if tp > 1:
        yield from _tensor(spec, tp, ep)
    if ep > 1:
        yield from _expert(spec, degrees, redundant)


def _tensor(spec: ModelSpec, tp: int, ep: int) -> Iterator[_Reason]:
    mixers = [mixer for layer in spec.layers for mixer in layer.mixers]
    heads = {mixer.heads or 0 for mixer in mixers}
    # MLA caches one latent whatever its heads: key-value heads are no constraint of its own.
    kv_heads = {mixer.kv_heads or 0 for mixer in mixers if mixer.kv_lora_rank is None}
    yield from _uneven("heads", "heads", heads, tp)
    yield from _uneven("kv heads", "key-value heads", kv_heads, tp)
    widths: set[int] = set()
    shared: set[int] = set()
    experts: set[int] = set()
    for layer in spec.layers:
        feed_forward = layer.feed_forward
        if feed_forward is None:
            continue
        (experts if feed_forward.routed_experts else widths).add(feed_forward.intermediate_size or 0)
        if feed_forward.shared_intermediate_size:
            shared.add(feed_forward.shared_intermediate_size)
    yield from _uneven("intermediate size", "feed-forward columns", widths, tp)
    yield from _uneven("shared expert size", "shared expert columns", shared, tp)
    if ep == 1:
        yield from _uneven("expert size", "columns of an expert", experts, tp)
    if any(mixer.qk_norm == "full" for mixer in mixers):
        yield "norm over heads", f"query and key norms run over all heads, which tp {tp} would split", {"tp": tp}


def _uneven(family: str, what: str, sizes: set[int], tp: int) -> Iterator[_Reason]:
    for size in sorted(sizes):
        if size % tp:
            yield family, f"{size} {what} do not divide by tp {tp}", {"size": size, "tp": tp}


def _expert(spec: ModelSpec, degrees: Degrees, redundant: int) -> Iterator[_Reason]:
    ep, group = degrees.ep, degrees.tp * degrees.dp
    counts = {layer.experts for layer in spec.layers} - {0}
    if not counts:
        yield "experts", f"the model has no routed experts for ep {ep}", {"ep": ep}
    for count in sorted(counts):
        if count % ep:
            yield "experts", f"{count} experts do not divide by ep {ep}", {"experts": count, "ep": ep}
        elif (count + redundant) % ep:
            yield ("experts", f"{count} experts and {redundant} redundant ones do not divide by ep {ep}",
                   {"experts": count, "redundant": redundant, "ep": ep})  # fmt: skip
    if group % ep or ep % degrees.tp:
        yield ("expert group", f"ep {ep} must be a multiple of tp {degrees.tp} and divide tp × dp = {group}",
               {"ep": ep, "tp": degrees.tp, "group": group})  # fmt: skip
