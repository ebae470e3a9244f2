"""Smaller widths that keep what the architecture asks of them: divisibility, products, and groups that are groups."""

import math
import re

from dayzero.domain.canonical import Json

HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
SHARED_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_global_key_value_heads", "o_groups",
                "num_attention_groups", "swa_num_attention_heads", "swa_num_key_value_heads")  # fmt: skip
LINEAR_HEADS = ("linear_num_key_heads", "linear_num_value_heads")
MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads")
MAMBA_GROUPS = ("n_groups", "mamba_n_groups")
MAMBA_INNER = ("mamba_d_ssm",)
HEAD_WIDTHS = ("head_dim", "attention_head_dim", "kv_channels")
RANKS = ("q_lora_rank", "o_lora_rank")
EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
WINDOWS = ("sliding_window", "sliding_window_size", "attention_chunk_size", "window_size", "sliding_window_len")
FEWEST_HEADS, HIDDEN_WIDTH, VOCABULARY, WINDOW_TOKENS, FEWEST_EXPERTS = 4, 256, 512, 64, 16
_INNER = re.compile(r"(intermediate|inner|ffn|latent|mlp_hidden)\w*(size|dim)?$|^n_inner$")
_NO_WIDTH = re.compile(r"position|window|token|length|context|vocab|chunk|head|state|rank")


def shrink_widths(holder: dict[str, Json], top: dict[str, Json]) -> None:
    """Shrink the language model's widths in place; `top` is the wrapper around it (or the same object)."""
    heads = _shrink_group(holder, HEADS, SHARED_HEADS, FEWEST_HEADS)
    _shrink_group(holder, LINEAR_HEADS, (), 2)
    old = _first(holder, HIDDEN)
    hidden = _hidden(holder, old, heads) if old else None
    if old and hidden and hidden < old:
        _shrink_sizes(holder, old, hidden)
    _shrink_experts(holder)
    for part in (holder, top) if holder is not top else (holder,):
        _shrink_vocabulary(part)
    for name in WINDOWS:
        if isinstance(value := holder.get(name), int) and value > WINDOW_TOKENS:
            holder[name] = WINDOW_TOKENS


def _first(part: dict[str, Json], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if isinstance(value := part.get(name), int) and value > 0), None)


def _shrink_group(part: dict[str, Json], names: tuple[str, ...], bound: tuple[str, ...], fewest: int) -> tuple[int, int] | None:
    """Divide counts that belong together by one number: none falls below `fewest`, those bound to them not below 2."""
    counts = {name: value for name in names if isinstance(value := part.get(name), int) and value > 0}
    if not counts:
        return None
    tied = {name: value for name in bound if isinstance(value := part.get(name), int) and value > 1}
    common = math.gcd(*counts.values(), *tied.values())
    floor = {**dict.fromkeys(tied, 2), **dict.fromkeys(counts, fewest)}
    whole = counts | tied
    divisor = max(
        (by for by in range(1, common + 1) if common % by == 0 and all(whole[name] // by >= floor[name] for name in whole)),
        default=1,
    )
    for name, value in whole.items():
        part[name] = value // divisor
    first = next(iter(counts.values()))
    return first, first // divisor


def _hidden(part: dict[str, Json], old: int, heads: tuple[int, int] | None) -> int:
    """The width: heads times their width where no width of a head is stated, or what the state-space heads ask for."""
    mamba = _first(part, MAMBA_HEADS)
    expand = next((value for name in ("mamba_expand", "expand") if isinstance(value := part.get(name), int)), None)
    width = next((value for name in ("mamba_head_dim", "mamba_d_head") if isinstance(value := part.get(name), int)), None)
    tied = mamba is not None and expand is not None and width is not None and expand * old == mamba * width
    by_heads = heads is not None and _first(part, HEAD_WIDTHS) is None and _first(part, ("qk_nope_head_dim",)) is None
    if by_heads and heads is not None:
        if tied:
            part[next(name for name in HEADS if name in part)] = heads[0]
            return old
        return heads[1] * (old // heads[0]) if old % heads[0] == 0 else old
    if tied and mamba and expand and width:
        found = _shrink_group(part, MAMBA_HEADS, MAMBA_GROUPS, 8)
        _divide(part, MAMBA_INNER, found)
        return found[1] * width // expand if found else old
    _divide(part, MAMBA_INNER, _shrink_group(part, MAMBA_HEADS, MAMBA_GROUPS, 8))
    step = math.lcm(heads[1] if heads else 1, 64)
    return min(old, step * math.ceil(HIDDEN_WIDTH / step))


def _divide(part: dict[str, Json], names: tuple[str, ...], counts: tuple[int, int] | None) -> None:
    for name in names:
        if counts and isinstance(value := part.get(name), int):
            part[name] = value * counts[1] // counts[0]


def _shrink_sizes(part: dict[str, Json], old: int, hidden: int) -> None:
    for name, value in list(part.items()):
        if name in HIDDEN:
            part[name] = hidden if value == old else value
        elif name in RANKS or _INNER.search(name):
            part[name] = _scaled(value, old, hidden)
        elif value == old and not isinstance(value, bool) and not _NO_WIDTH.search(name):
            part[name] = hidden


def _scaled(value: Json, old: int, hidden: int) -> Json:
    """In proportion to the width, rounded up to 32 elements: what grouped products and vector units take."""
    if isinstance(value, list):
        return [_scaled(item, old, hidden) for item in value]
    if isinstance(value, bool) or not isinstance(value, int) or value <= 64:
        return value
    return min(value, max(64, 32 * math.ceil(value * hidden / old / 32)))


def _shrink_experts(part: dict[str, Json]) -> None:
    """Fewer experts; as many groups as before, and enough experts in each for every token to find its number of them."""
    taken = _most(part.get("num_experts_per_tok"), part.get("num_experts_per_token"), part.get("moe_topk"),
                  part.get("experts_per_token"), part.get("top_k_experts"))  # fmt: skip
    groups, open_groups = _first(part, ("n_group", "num_expert_group")) or 1, _first(part, ("topk_group",))
    for name in EXPERTS:
        value = part.get(name)
        experts = _most(value)
        if groups > 1:
            fewest = groups * max(2, math.ceil(taken / (open_groups or groups)))
        else:
            fewest = max(FEWEST_EXPERTS, 8 * math.ceil(2 * taken / 8))
        if experts > fewest:
            part[name] = [_least(item, fewest) for item in value] if isinstance(value, list) else fewest


def _most(*values: Json) -> int:
    found = [item for value in values for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
    return max(found, default=0)


def _shrink_vocabulary(part: dict[str, Json]) -> None:
    """A small vocabulary; special tokens move into it, and none ends a text, so that every rehearsal decodes to its end."""
    last = VOCABULARY
    for name, value in sorted(part.items()):
        if "vocab" in name and isinstance(value, int) and not isinstance(value, bool) and value > VOCABULARY:
            part[name] = VOCABULARY
        elif name == "eos_token_id":
            part[name] = None
        elif name.endswith(("token_id", "token_index")) and isinstance(value, int) and value >= VOCABULARY:
            last -= 1
            part[name] = last


def _least(value: Json, most: int) -> Json:
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) else value
