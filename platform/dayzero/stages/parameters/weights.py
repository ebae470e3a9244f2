"""Weight bytes that a configuration leads to: each tensor in its native dtype or as its quantization stores it, with scales."""

from collections.abc import Callable, Mapping
from math import prod

from dayzero.domain.architecture import Layer, ModelSpec, Quantization, QuantizationGroup
from dayzero.domain.findings import Finding, Severity
from dayzero.stages.parameters.counting import correction_biases
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.feed_forward import feed_forward_tensors
from dayzero.stages.parameters.quantization_targets import ModuleNames, bare_name, is_linear, module_of
from dayzero.stages.structure.families import family_of

ELEMENT_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes an element of unquantized weights and of activations, by native dtype."""

BLOCK = (128, 128)
"""The shape of a block with one scale where a scheme in blocks does not state its own (DeepSeek-V3)."""


def predicted_weight_bytes(spec: ModelSpec, tensors: tuple[ExpectedTensor, ...]) -> tuple[int | None, list[Finding]]:
    """Bytes of all weights in the checkpoint that are known, and findings; None where a dtype or a scheme is unknown.

    `tensors` are those that the structure leads to. Embeddings, head, norms, routers, biases and convolutions stay in the
    native dtype, as does all that the quantization ignores. Draft layers are taken to be stored like the last layer, towers
    in the native dtype.
    """
    native = ELEMENT_BYTES.get(spec.native_dtype or "")
    parameters = spec.parameters
    if native is None or not tensors:
        return None, []
    scheme = Scheme(spec.quantization)
    unknown = scheme.unknown()
    if unknown is not None:
        return None, [unknown]
    stored, last, last_elements = 0, 0, 0
    for tensor in tensors:
        size = scheme.stored_bytes(tensor, native)
        stored += size
        if tensor.layer == len(spec.layers) - 1:
            last, last_elements = last + size, last_elements + tensor.elements
    drafts = parameters.by_component.get("multi_token_prediction", 0)
    rest = parameters.by_component.get("towers", 0) + correction_biases(spec)
    predicted = stored + drafts * last // max(1, last_elements) + rest * native
    return predicted, _left_out(spec)


def expert_bytes(spec: ModelSpec, layer: Layer) -> int:
    """What one routed expert of a layer takes as it is stored; an unknown scheme counts as the native dtype."""
    family, native = family_of(spec), ELEMENT_BYTES.get(spec.native_dtype or "", 2)
    if family is None or not layer.experts or layer.feed_forward is None:
        return 0
    scheme = Scheme(spec.quantization)
    known = scheme if scheme.unknown() is None else Scheme(None)
    tensors = feed_forward_tensors(layer.index, layer.feed_forward, family, spec.hidden_size or 0)
    return sum(known.stored_bytes(tensor, native) for tensor in tensors if tensor.component == "experts") // layer.experts


def _left_out(spec: ModelSpec) -> list[Finding]:
    parts = [*(spec.towers if spec.parameters.total is None else ())]
    if spec.predict_layers and "multi_token_prediction" not in spec.parameters.by_component:
        parts.append(f"{spec.predict_layers} draft layers")
    if not parts:
        return []
    message = f"predicted weight bytes leave out what is not known yet: {', '.join(parts)}"
    return [Finding("weights.predicted_without", parts[0], message, Severity.NOTE)]


class Scheme:
    """A quantization, ready to be asked for one tensor after the other."""

    def __init__(self, quantization: Quantization | None) -> None:
        self.quantization = quantization
        self.groups = quantization.groups if quantization else ()
        self.ignored = ModuleNames(quantization.ignored_modules if quantization else ())
        self.targets = [(group, frozenset(bare_name(name) for name in group.targets)) for group in self.groups]

    def unknown(self) -> Finding | None:
        """Why sizes cannot be said, or None."""
        if self.quantization is None:
            return None
        if not self.quantization.complete:
            return _finding(self.quantization, "its map of modules is not complete here")
        if self.ignored.unread:
            return _finding(self.quantization, f"it leaves modules alone by the expression {self.ignored.unread[0][:80]!r}")
        if any(group.scheme == "other" or group.bits is None for group in self.groups):
            return _finding(self.quantization, "it is a scheme that nobody knows here")
        return None

    def stored_bytes(self, tensor: ExpectedTensor, native: int) -> int:
        """Bytes of a tensor as it is stored, where nobody has to know how."""
        group = self.group_of(tensor)
        if group is None:
            return tensor.elements * native
        assert group.bits is not None
        assert self.quantization is not None
        block = self.quantization.block_shape or BLOCK
        return -(-tensor.elements * group.bits // 8) + _scale_bytes(group, tensor, block)

    def group_of(self, tensor: ExpectedTensor) -> QuantizationGroup | None:
        """The group whose scheme stores a tensor; None: it stays as it is."""
        if not self.groups or not is_linear(tensor):
            return None
        module = module_of(tensor)
        if self.ignored.match(module):
            return None
        for group, targets in self.targets:
            if module in targets or not targets.isdisjoint(module.split(".")):
                return group
        return next((group for group, targets in self.targets if not targets), None)


def _scale_bytes(group: QuantizationGroup, tensor: ExpectedTensor, block: tuple[int, ...]) -> int:
    rows, columns = tensor.shape[-2], tensor.shape[-1]
    stack = tensor.experts * prod(tensor.shape[:-2])
    if group.scheme == "fp8_block":
        return stack * -(-rows // block[0]) * -(-columns // block[-1]) * 4
    if group.group_size:
        return -(-tensor.elements // group.group_size) * group.scale_bits // 8
    return stack * rows * group.scale_bits // 8 if group.scheme.endswith("channel") else stack * 4


def _finding(quantization: Quantization, why: str) -> Finding:
    message = f"weight bytes of {quantization.method} ({quantization.source}) cannot be said from the configuration: {why}"
    return Finding("weights.scheme_unknown", quantization.method, message, Severity.NOTE)


def storage_of(spec: ModelSpec) -> Callable[[ExpectedTensor], tuple[int, str | None]]:
    """What a tensor takes as it is stored, and its scheme (None: the native dtype); an unknown scheme counts as native."""
    native = ELEMENT_BYTES.get(spec.native_dtype or "", 2)
    scheme = Scheme(spec.quantization)
    known = scheme if scheme.unknown() is None else Scheme(None)

    def stored(tensor: ExpectedTensor) -> tuple[int, str | None]:
        group = known.group_of(tensor)
        return known.stored_bytes(tensor, native), None if group is None else group.scheme

    return stored
