"""Where a configuration and its tensor headers contradict each other, with the tensors that show it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dayzero.domain.architecture import ModelSpec, Rotary
from dayzero.domain.canonical import Numbers
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout.names import Part, place_of
from dayzero.stages.layout.scales import eight_bit_floats, without_scale


def contradictions(spec: ModelSpec, index: CheckpointIndex | None) -> Iterator[Finding]:
    """Findings on layers, experts and scales; none without headers, and none on what the configuration leaves open."""
    if index is None or not index.tensors:
        return
    layers: dict[int, str] = {}
    experts: dict[int, dict[int, str]] = defaultdict(dict)
    for header in index.tensors:
        place = place_of(header.name, None)
        if place.layer is None or place.part is Part.TOWER:
            continue
        layers.setdefault(place.layer, header.name)
        if place.expert is not None:
            experts[place.layer].setdefault(place.expert, header.name)
    if spec.layers:
        yield from _layers(spec, layers)
        yield from _experts(spec, experts)
    yield from _scales(spec, index)


def _layers(spec: ModelSpec, layers: Mapping[int, str]) -> Iterator[Finding]:
    stated, drafts = len(spec.layers), spec.predict_layers
    beyond = {at: name for at, name in layers.items() if at >= stated + drafts}
    missing = [at for at in range(stated) if at not in layers]
    if beyond:
        message = (f"the configuration states {stated} layers and {drafts} draft layers, but the checkpoint has "
                   f"{max(layers) + 1}: {_some(beyond.values())}")  # fmt: skip
        yield _error("structure.more_layers", next(iter(beyond.values())), message, beyond.values(),
                     {"stated": stated, "held": max(layers) + 1})  # fmt: skip
    if missing and layers:
        shown = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
        message = f"the configuration states {stated} layers, but the checkpoint has no tensor of {len(missing)}: {shown}"
        yield _error("structure.fewer_layers", f"layers.{missing[0]}", message, [f"layers.{at}" for at in missing],
                     {"stated": stated, "missing": len(missing)})  # fmt: skip


def _experts(spec: ModelSpec, experts: Mapping[int, Mapping[int, str]]) -> Iterator[Finding]:
    for layer in spec.layers:
        held = experts.get(layer.index)
        if not held or len(held) == layer.experts:
            continue
        message = (f"the configuration states {layer.experts} routed experts in layer {layer.index}, but the checkpoint has "
                   f"{len(held)}: up to {held[max(held)]}")  # fmt: skip
        yield _error("structure.experts", held[max(held)], message, [held[max(held)]],
                     {"layer": layer.index, "stated": layer.experts, "held": len(held)})  # fmt: skip
        # One layer shows it; the others say the same.
        return


def _scales(spec: ModelSpec, index: CheckpointIndex) -> Iterator[Finding]:
    eights = eight_bit_floats(index.tensors)
    bare = without_scale(index.tensors)
    if bare:
        message = f"{len(bare)} of {len(eights)} tensors in 8-bit floats have no scale beside them: {_some(bare)}"
        yield _error("weights.no_scale", bare[0], message, bare, {"without": len(bare), "of": len(eights)})
    quantization = spec.quantization
    if quantization and quantization.method == "fp8" and not eights:
        message = "the configuration says that weights are in 8-bit floats, but the checkpoint holds none"
        yield _error("weights.not_quantized", index.tensors[0].name, message, [], {"tensors": len(index.tensors)})


def rotary_findings(rotary: Mapping[str, Rotary]) -> Iterator[Finding]:
    """What a rotary embedding says beyond the usual: whoever runs it has to know these keys."""
    for kind, one in rotary.items():
        if one.extra:
            keys = ", ".join(f"{key} {value}" for key, value in one.extra.items())
            message = (
                f"rotary embedding {one.kind} of {kind} layers states {keys}: whether an operator heeds it has to be checked"
            )
            yield Finding("rotary.extra_keys", kind, message, Severity.NOTE, {"keys": len(one.extra)})


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (" …" if len(listed) > 3 else "")


def _error(code: str, subject: str, message: str, names: Iterable[str], numbers: Numbers) -> Finding:
    return Finding(code, subject, message, Severity.ERROR, numbers, tuple(names))
