"""The tensors that a checkpoint will hold, from the structure alone: each as its quantization stores it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from dayzero.domain.architecture import Layer, ModelSpec, QuantizationGroup
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.stages.parameters.counting import around_layers, layer_tensors
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.weights import BLOCK, Scheme
from dayzero.stages.structure.families import Family, family_of

NATIVE = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_MX_BLOCK = 32
"""Elements that share a scale in the MX formats (OCP Microscaling Formats 1.0)."""

_Form = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a checkpoint, or `experts` alike whose name holds `{e}`; `component` is that of the structure."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    component: str
    experts: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one of them."""
        return prod(self.shape) * DTYPE_BITS[self.dtype] // 8

    def header(self, begin: int = 0, expert: int = 0) -> TensorHeader:
        """The header that it, or one of its experts, will have."""
        name = self.name.replace("{e}", str(expert))
        return TensorHeader(name, self.dtype, self.shape, "predicted", begin, begin + self.size_bytes)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """What a checkpoint will hold: each layer's tensors (equal layers share one tuple, named after the first of them) and those
    outside of the layers, draft layers and towers as far as they are known."""

    layers: tuple[tuple[StoredTensor, ...], ...]
    outside: tuple[StoredTensor, ...]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(one.size_bytes * one.experts for part in (*self.layers, self.outside) for one in part)


def stored_model(spec: ModelSpec) -> StoredModel | None:
    """Every tensor as its quantization stores it; None when the structure or the dtype is not known.

    A quantization that nobody knows here is taken as none, which is more than it will take (see stored_findings).
    """
    native, family = NATIVE.get(spec.native_dtype or ""), family_of(spec)
    if native is None or family is None or not spec.layers or spec.hidden_size is None or spec.vocabulary_size is None:
        return None
    if spec.tied_embeddings is None:
        return None
    store = _Store(spec, native)
    known: dict[tuple[object, ...], tuple[StoredTensor, ...]] = {}
    layers = []
    for layer in spec.layers:
        kind = (layer.mixer, layer.feed_forward, layer.parallel, layer.index if store.by_layer else None)
        if kind not in known:
            expected = (*layer_tensors(layer, family, spec), *_biases(layer, family))
            known[kind] = tuple(stored for tensor in expected for stored in store.stored(tensor))
        layers.append(known[kind])
    outside = [stored for tensor in (*around_layers(spec), *_drafts(spec, family)) for stored in store.stored(tensor)]
    return StoredModel(tuple(layers), (*outside, *_unnamed(spec, native, outside)))


def stored_tensors(spec: ModelSpec) -> tuple[StoredTensor, ...] | None:
    """The tensors of stored_model, each under its own layer's name."""
    model = stored_model(spec)
    if model is None:
        return None
    found = list(model.outside)
    for index, layer in enumerate(model.layers):
        for one in layer:
            _, _, below = one.name.removeprefix("model.layers.").partition(".")
            found.append(replace(one, name=f"model.layers.{index}.{below}"))
    return tuple(found)


def _unnamed(spec: ModelSpec, native: str, named: list[StoredTensor]) -> Iterator[StoredTensor]:
    """Towers, and draft layers of which only the size is known, as one tensor each."""
    components = spec.parameters.by_component
    towers, drafts = components.get("towers", 0), components.get("multi_token_prediction", 0)
    if towers:
        yield StoredTensor("vision_tower.weight", native, (towers,), "towers", 1)
    if drafts and not any(tensor.component == "drafts" for tensor in named):
        yield StoredTensor("mtp.weight", native, (drafts,), "drafts", 1)


def stored_findings(spec: ModelSpec, weight_bytes: int) -> tuple[Finding, ...]:
    """That the bytes are predicted, how their quantization was taken, and what they leave out."""
    message = f"weight bytes are predicted from the structure in {spec.native_dtype}: there are no headers yet"
    if spec.quantization is not None:
        modelled = Scheme(spec.quantization).unknown() is None
        taken = "was taken into account" if modelled else "was not, and will make them fewer"
        message += f"; quantization ({spec.quantization.method}) {taken}"
    found = [Finding("plan.predicted_weights", "weights", message, numbers={"weight_bytes": weight_bytes})]
    components = spec.parameters.by_component
    if spec.predict_layers and not components.get("multi_token_prediction"):
        found.append(Finding("plan.drafts_left_out", "weights", f"{spec.predict_layers} draft layers of unknown size are not "
                             "in the predicted weights", Severity.NOTE, {"layers": spec.predict_layers}))  # fmt: skip
    if spec.towers and not components.get("towers"):
        found.append(Finding("plan.towers_left_out", spec.towers[0], f"{', '.join(spec.towers)}: of unknown size, not in the "
                             "predicted weights", Severity.NOTE))  # fmt: skip
    return tuple(found)


def _biases(layer: Layer, family: Family) -> Iterator[ExpectedTensor]:
    """Biases that steer routing: the checkpoint holds them, parameter totals leave them out."""
    forward = layer.feed_forward
    if forward is not None and forward.correction_bias and forward.routed_experts:
        block = "mixer" if family.layout == "blocks" else family.block
        shape = (forward.routed_experts + forward.zero_experts,)
        yield ExpectedTensor(layer.index, f"{block}.gate.e_score_correction_bias", shape, "router")


def _drafts(spec: ModelSpec, family: Family) -> Iterator[ExpectedTensor]:
    """Draft layers behind the last one, where the family's are known (see parameters_prediction)."""
    like = _draft_like(spec, family)
    if like is None or spec.hidden_size is None or spec.vocabulary_size is None:
        return
    hidden = spec.hidden_size
    names = ("enorm", "hnorm", "shared_head.norm")
    for number in range(spec.predict_layers):
        at = len(spec.layers) + number
        yield from layer_tensors(replace(like, index=at), family, replace(spec, residual="add"))
        if family.drafts == "copies":
            yield ExpectedTensor(at, "embed_tokens.weight", (spec.vocabulary_size, hidden), "embeddings")
            yield ExpectedTensor(at, "shared_head.head.weight", (spec.vocabulary_size, hidden), "head")
            if like.experts:
                yield ExpectedTensor(at, f"{family.block}.gate.e_score_correction_bias", (like.experts,), "router")
        if family.drafts == "copies" or number == 0:
            yield ExpectedTensor(at, "eh_proj.weight", (hidden, 2 * hidden), "drafts")
            for name in names:
                yield ExpectedTensor(at, f"{name}.weight", (hidden,), "norms")


def _draft_like(spec: ModelSpec, family: Family) -> Layer | None:
    if not spec.predict_layers or not spec.layers or "multi_token_prediction" not in spec.parameters.by_component:
        return None
    if family.drafts == "copies":
        return spec.layers[-1]
    if family.drafts == "shared":
        return next((layer for layer in spec.layers if layer.mixer and layer.mixer.recurrence is None), None)
    return None


class _Store:
    """How one structure's tensors are stored; asked once for all layers where names of layers decide nothing."""

    def __init__(self, spec: ModelSpec, native: str) -> None:
        scheme = Scheme(spec.quantization)
        self.scheme = scheme if scheme.unknown() is None else Scheme(None)
        self.native, self.layers = native, len(spec.layers)
        self.block = (spec.quantization.block_shape if spec.quantization else None) or BLOCK
        quantization = self.scheme.quantization
        named = (*quantization.ignored_modules, *(name for group in quantization.groups for name in group.targets)) if (
            quantization) else ()  # fmt: skip
        self.by_layer = any(character.isdigit() for name in named for character in name)
        self._known: dict[tuple[object, ...], tuple[_Form, ...]] = {}

    def stored(self, tensor: ExpectedTensor) -> Iterator[StoredTensor]:
        draft = tensor.layer is not None and tensor.layer >= self.layers
        key = (tensor.name, tensor.shape, tensor.layer if self.by_layer else None)
        if key not in self._known:
            self._known[key] = tuple(self._forms(tensor))
        component = "drafts" if draft else tensor.component
        path = _path(tensor)
        for suffix, dtype, shape in self._known[key]:
            yield StoredTensor(path + suffix, dtype, shape, component, tensor.experts)

    def _forms(self, tensor: ExpectedTensor) -> Iterator[_Form]:
        group = self.scheme.group_of(tensor)
        if group is None:
            yield "", self.native, tensor.shape
        elif len(tensor.shape) == 3:
            yield from _stacked(tensor.shape, group, self.native, self.block)
        else:
            yield from _matrix(tensor.shape, group, self.native, self.block)


def _path(tensor: ExpectedTensor) -> str:
    if tensor.component == "head" and tensor.layer is None:
        return tensor.name
    return f"model.{tensor.name}" if tensor.layer is None else f"model.layers.{tensor.layer}.{tensor.name}"


def _matrix(shape: tuple[int, ...], group: QuantizationGroup, native: str, block: tuple[int, ...]) -> Iterator[_Form]:
    """A weight [output, input] and its scales, by the scheme (names of the formats' usual writers)."""
    rows, columns = shape
    size = group.group_size
    if group.scheme == "fp8_block":
        yield "", "F8_E4M3", shape
        yield "_scale_inv", "F32", (-(-rows // block[0]), -(-columns // block[-1]))
        return
    if group.bits == 4:
        yield from _four_bits(rows, columns, group)
    else:
        yield "", "I8" if group.scheme == "int8" else "F8_E4M3", shape
    if not size:
        each = group.scheme.endswith("channel")
        yield "_scale", "BF16" if each and group.scale_bits == 16 else "F32", (rows, 1) if each else ()
        return
    groups = -(-columns // size)
    if group.scale_bits == 8:
        yield "_scale", "U8", (rows, groups)
    else:
        yield "_scale", native if native != "F32" else "F16", (rows, groups)
    if group.scale_bits == 20:
        yield "_zero_point", "I32", (-(-rows // 8), groups)
    if group.scale_bits == 32:
        yield "_zero_point", native if native != "F32" else "F16", (rows, groups)


def _four_bits(rows: int, columns: int, group: QuantizationGroup) -> Iterator[_Form]:
    if group.scheme == "int4_group":
        yield "_packed", "I32", (rows, -(-columns // 8))
    else:
        yield "", "U8", (rows, -(-columns // 2))


def _stacked(shape: tuple[int, ...], group: QuantizationGroup, native: str, block: tuple[int, ...]) -> Iterator[_Form]:
    """All experts in one tensor, [experts, input, output]; scales are each expert's own, never over two of them."""
    experts, inputs, outputs = shape
    if group.scheme == "mxfp4":
        yield "_blocks", "U8", (experts, outputs, -(-inputs // _MX_BLOCK), _MX_BLOCK // 2)
        yield "_scales", "U8", (experts, outputs, -(-inputs // _MX_BLOCK))
    elif group.scheme == "fp8_block":
        yield "", "F8_E4M3", shape
        yield "_scale_inv", "F32", (experts, -(-outputs // block[0]), -(-inputs // block[-1]))
    else:
        yield "", native, shape
