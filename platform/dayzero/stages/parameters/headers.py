"""Parameters counted from tensor headers, packed weights unpacked and scales left out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.layout.names import Leaf, Part, TensorPlace, place_of
from dayzero.stages.parameters.expected import ExpectedTensor

LANGUAGE = (Part.EMBEDDINGS, Part.LAYER, Part.FINAL_NORM, Part.HEAD, Part.OTHER)


@dataclass(frozen=True, slots=True)
class HeaderCount:
    """What the headers hold, in parameters by component: `language` without prediction layers and towers, `outside` the
    rest (multi_token_prediction, towers, buffers). `unread` names tensors whose packing is not known."""

    language: Counter[str]
    outside: Counter[str]
    unread: tuple[str, ...]

    @property
    def language_elements(self) -> int:
        """All parameters of the language model."""
        return sum(self.language.values())


def count_headers(index: CheckpointIndex, layers: int | None, bits: int | None, tied: bool | None) -> HeaderCount:
    """Parameters by component; `bits` a quantized weight takes (None: not quantized), `tied` whether a stored head is the
    embedding again."""
    language: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    unread: list[str] = []
    for header in index.tensors:
        place = place_of(header.name, layers)
        elements = logical_elements(header, place, bits)
        if elements is None:
            unread.append(header.name)
        elif place.leaf is Leaf.BUFFER or (tied and place.part is Part.HEAD):
            outside["buffers" if place.leaf is Leaf.BUFFER else "tied_head_copy"] += elements
        elif place.part in LANGUAGE:
            language[_component(place)] += elements
        else:
            outside["towers" if place.part is Part.TOWER else place.part.value] += elements
    return HeaderCount(+language, +outside, tuple(unread))


def logical_elements(header: TensorHeader, place: TensorPlace, bits: int | None) -> int | None:
    """Parameters that a tensor stands for: 0 for scales, several an element for packed weights, None when nobody says how
    they are packed."""
    if place.leaf is Leaf.SCALE:
        return 0
    if header.dtype in ("I32", "U32") and place.leaf is Leaf.VALUE:
        return header.elements * 32 // bits if bits else None
    if place.suffix == "_blocks":
        return header.elements * 2
    if header.dtype == "U8" and place.suffix == "weight":
        return header.elements * 2 if bits == 4 else header.elements if bits == 8 else None
    return header.elements


def disagreements(
    spec: ModelSpec, index: CheckpointIndex, expected: Iterable[ExpectedTensor], bits: int | None
) -> list[Finding]:
    """Findings that name the tensors which the headers hold and the family lacks, or the other way round, or of another
    size."""
    wanted: dict[tuple[int | None, str], ExpectedTensor] = {(tensor.layer, _plain(tensor.name)): tensor for tensor in expected}
    seen: Counter[tuple[int | None, str]] = Counter()
    extra: list[str] = []
    for header in index.tensors:
        place = place_of(header.name, len(spec.layers))
        if place.part not in LANGUAGE or place.leaf in (Leaf.SCALE, Leaf.BUFFER):
            continue
        if place.part is Part.HEAD and spec.tied_embeddings:
            continue
        key = (place.layer, _plain(place.template))
        seen[key] += logical_elements(header, place, bits) or 0
        if key not in wanted:
            extra.append(header.name)
    missing = [_label(tensor) for key, tensor in wanted.items() if key not in seen]
    sizes = [f"{_label(tensor)}: {seen[key]} elements, not {tensor.elements}"
             for key, tensor in wanted.items() if key in seen and seen[key] != tensor.elements]  # fmt: skip
    return [
        *_finding("parameters.unexplained", extra, "tensors have no place in the structure that the configuration states"),
        *_finding("parameters.missing", missing, "tensors of the stated structure are not in the checkpoint"),
        *_finding("parameters.size", sizes, "tensors differ in size from the stated structure"),
    ]


def total_differs(counted: HeaderCount, expected: Iterable[ExpectedTensor]) -> list[Finding]:
    """For families whose checkpoints name tensors in another way than here: whether the sums agree."""
    total = sum(tensor.elements for tensor in expected)
    if not total or counted.unread or total == counted.language_elements:
        return []
    message = f"the checkpoint holds {counted.language_elements} language parameters, the stated structure {total}"
    return [Finding("parameters.total", "parameters", message, Severity.WARNING,
                    {"held": counted.language_elements, "stated": total})]  # fmt: skip


def _plain(template: str) -> str:
    for packed in (".weight_packed", ".qweight"):
        template = template.replace(packed, ".weight")
    return template.removesuffix("_blocks")


def _label(tensor: ExpectedTensor) -> str:
    return tensor.name if tensor.layer is None else f"layers.{tensor.layer}.{tensor.name}"


def _finding(code: str, names: list[str], what: str) -> list[Finding]:
    if not names:
        return []
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    finding = Finding(code, names[0], f"{len(names)} {what}: {shown}", Severity.WARNING, {"count": len(names)}, tuple(names))
    return [finding]


def _component(place: TensorPlace) -> str:
    if place.part is Part.EMBEDDINGS:
        return "embeddings"
    if place.part is Part.HEAD:
        return "head"
    module = place.module
    if place.expert is not None or ".experts." in f".{module}.":
        return "experts"
    if place.part is Part.OTHER:
        return "other"
    last = module.rsplit(".", 1)[-1]
    if "norm" in last or last.startswith("ln"):
        return "norms"
    if last in ("gate", "router", "shared_expert_gate"):
        return "router"
    if "attn" in module or "attention" in module:
        return "attention"
    return "feed_forward" if "mlp" in module or "moe" in module or "feed_forward" in module else "other"
