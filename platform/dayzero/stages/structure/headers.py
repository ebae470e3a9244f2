"""What tensor headers say of the structure beyond the configuration."""

from collections.abc import Iterator
from dataclasses import replace

from dayzero.domain.architecture import Layer, Mixer
from dayzero.domain.findings import Finding
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.layout.names import Part, place_of


def with_header_norms(layers: tuple[Layer, ...], index: CheckpointIndex | None) -> tuple[tuple[Layer, ...], list[Finding]]:
    """The layers, with the query and key norms that the checkpoint holds and the family does not know.

    A norm as wide as a head is over each head; anything else (a row for each head, or all heads) is over all of them.
    """
    if index is None or not layers:
        return layers, []
    held = dict(_norms(index, len(layers)))
    news = {at: header for at, header in held.items() if at < len(layers) and _lacks_norm(layers[at].mixer)}
    if not news:
        return layers, []
    names = tuple(header.name for _, header in sorted(news.items()))
    message = f"the checkpoint normalizes queries and keys in {len(news)} layers, which the family does not: {names[0]}"
    finding = Finding("structure.norm_in_headers", names[0], message, numbers={"layers": len(news)}, names=names)
    changed = tuple(_normed(layer, news.get(layer.index)) for layer in layers)
    return changed, [finding]


def _norms(index: CheckpointIndex, layers: int) -> Iterator[tuple[int, TensorHeader]]:
    for header in index.tensors:
        if "k_norm" not in header.name:
            continue
        place = place_of(header.name, layers)
        if (
            place.part is Part.LAYER
            and place.layer is not None
            and place.module == "self_attn.k_norm"
            and place.suffix == "weight"
        ):
            yield place.layer, header


def _lacks_norm(mixer: Mixer | None) -> bool:
    return mixer is not None and mixer.qk_norm is None and mixer.kv_lora_rank is None and mixer.recurrence is None


def _normed(layer: Layer, header: TensorHeader | None) -> Layer:
    if header is None or layer.mixer is None:
        return layer
    over_a_head = header.shape == (layer.mixer.head_dim,)
    return replace(layer, mixer=replace(layer.mixer, qk_norm="head" if over_a_head else "full"))
