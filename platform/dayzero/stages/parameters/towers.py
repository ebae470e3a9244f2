"""Parameters of towers, in closed form where the tower's kind is known."""

from dayzero.stages.configuration.towers import TowerFields

_Sizes = tuple[int, int, int]


def tower_elements(tower: TowerFields, hidden_size: int | None) -> int | None:
    """Parameters of a tower with what joins it to the language model of that width; None when its kind or a size is unknown.

    Sources: transformers 5.24, the classes of each model type (qwen3_vl, kimi_k25, minimax_m3_vl, gemma4).
    """
    counts = {
        "qwen": _qwen, "kimi": _moonvit, "minimax": _minimax, "gemma4": _gemma4,
    }  # fmt: skip
    kind = _kind(tower)
    if kind is None or tower.hidden_size is None or tower.layers is None or tower.intermediate_size is None:
        return None
    outputs = tower.outputs or hidden_size
    if outputs is None or tower.patch is None:
        return None
    return counts[kind](tower, outputs, hidden_size or outputs)


def _kind(tower: TowerFields) -> str | None:
    name = tower.model_type or ""
    if name in ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
        return "qwen"
    if name == "kimi_k25":
        return "kimi"
    if name == "clip_vision_model" and tower.projector_size and tower.temporal_patch:
        return "minimax"
    return "gemma4" if name == "gemma4_vision" and not tower.clipped else None


def _linear(rows: int, columns: int, bias: bool = True) -> int:
    return rows * columns + (rows if bias else 0)


def _encoder_layer(width: int, inner: int) -> int:
    """Two layer norms, attention with biases, a plain feed-forward with biases."""
    return 4 * width + 4 * _linear(width, width) + _linear(inner, width) + _linear(width, inner)


def _sizes(tower: TowerFields) -> _Sizes:
    return tower.hidden_size or 0, tower.layers or 0, tower.intermediate_size or 0


def _qwen(tower: TowerFields, outputs: int, hidden: int) -> int:
    """Patches of time and space, learned positions, and a merger for the end and for each layer that reaches deep."""
    width, layers, inner = _sizes(tower)
    patch = (tower.channels or 3) * (tower.temporal_patch or 2) * (tower.patch or 0) ** 2
    merged = width * (tower.merge or 2) ** 2
    ends = _linear(merged, merged) + _linear(outputs, merged)
    total = _linear(width, patch) + (tower.positions or 0) * width + layers * _encoder_layer(width, inner)
    return total + 2 * width + ends + len(tower.deep_layers) * (2 * merged + ends)


def _moonvit(tower: TowerFields, outputs: int, hidden: int) -> int:
    """Patches of space, positions on a grid, a final norm; the projector merges a square of patches."""
    width, layers, inner = _sizes(tower)
    grid = tower.position_grid or (64, 64)
    merged = width * (tower.merge or 2) ** 2
    total = _linear(width, 3 * (tower.patch or 0) ** 2) + grid[0] * grid[-1] * width + layers * _encoder_layer(width, inner)
    return total + 2 * width + 2 * width + _linear(merged, merged) + _linear(outputs, merged)


def _minimax(tower: TowerFields, outputs: int, hidden: int) -> int:
    """A CLIP encoder with patches of time and space; a projector of two layers, then a merger of two."""
    width, layers, inner = _sizes(tower)
    patch = (tower.channels or 3) * (tower.temporal_patch or 1) * (tower.patch or 0) ** 2
    joined = tower.projector_size or hidden
    merged = joined * (tower.merge or 2) ** 2
    total = width * patch + 2 * width + layers * _encoder_layer(width, inner)
    total += _linear(joined, width) + _linear(hidden, joined)
    return total + _linear(joined, merged) + _linear(hidden, joined)


def _gemma4(tower: TowerFields, outputs: int, hidden: int) -> int:
    """Gated feed-forwards, norms around both halves and over query and key heads, positions in a table for each axis."""
    width, layers, inner = _sizes(tower)
    heads, head = tower.heads or 0, tower.head_dim or 0
    query, key = heads * head, (tower.kv_heads or heads) * head
    layer = 2 * query * width + 2 * key * width + 2 * head + 3 * inner * width + 4 * width
    patches = width * 3 * (tower.patch or 0) ** 2
    return 2 * (tower.positions or 0) * width + patches + layers * layer + hidden * width
