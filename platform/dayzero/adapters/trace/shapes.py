"""Shapes in words: what depends on the workload is a symbol, what the architecture fixes is a name or a number.

Imported by child processes only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

TOKENS = 262
"""Tokens of the traced prefill. It is twice a prime, and one more token (the context of the decode step) is a prime: both
show in every shape that holds them."""

CONTEXT = TOKENS + 1
"""Tokens that the traced decode step attends to, its own included."""

_SMALLEST_NAMED = 256
"""Smaller sizes occur for many reasons; they stay numbers."""

_FIGURES = (
    ("D", ("hidden_size", "n_embd", "d_model")),
    ("V", ("vocab_size",)),
    ("F", ("intermediate_size", "ffn_hidden_size")),
    ("Fe", ("moe_intermediate_size",)),
    ("E", ("n_routed_experts", "num_experts", "num_local_experts")),
    ("Rq", ("q_lora_rank",)),
    ("Rkv", ("kv_lora_rank",)),
)


class Shapes:
    """Writes shapes for one model. A size that two figures share, or that is small, stays a number."""

    def __init__(self, config: Any, tp: int = 1) -> None:
        stated = {symbol: _figure(config, names) for symbol, names in _FIGURES}
        known = {symbol: size for symbol, size in stated.items() if size is not None and size >= _SMALLEST_NAMED}
        sizes = list(known.values())
        self._named = {size: symbol for symbol, size in known.items() if sizes.count(size) == 1}
        self._tp = tp

    @property
    def symbols(self) -> Mapping[str, int]:
        """Every symbol with its size."""
        return {"T": TOKENS, "S": CONTEXT} | {symbol: size for size, symbol in sorted(self._named.items())}

    def of(self, shape: Sequence[int]) -> str:
        """One shape, such as (1,T,D)."""
        return "(" + ",".join(self._size(int(size)) for size in shape) + ")"

    def _size(self, size: int) -> str:
        named = self._named.get(size)
        if named is not None:
            return named
        whole = self._named.get(size * self._tp) if self._tp > 1 else None
        if whole is not None:
            return f"{whole}/{self._tp}"
        for symbol, unit in (("T", TOKENS), ("S", CONTEXT)):
            if size and size % unit == 0:
                return symbol if size == unit else f"{size // unit}{symbol}"
        return str(size)


def _figure(config: Any, names: Sequence[str]) -> int | None:
    for name in names:
        try:
            value = getattr(config, name, None)
        except Exception:  # noqa: BLE001 - a figure that differs between layers raises the library's own error
            value = None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
