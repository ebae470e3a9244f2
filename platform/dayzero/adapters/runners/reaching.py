"""Which paths of a model only long prompts take: beyond a window, or beyond a chunk of attention."""

from typing import Any

from dayzero.domain.observations import PathReach

MARGIN_TOKENS = 32
"""How far beyond a window a prompt goes: several tokens must have lost keys for the difference to be seen."""
LONGEST_TOKENS = 1024
"""A prompt is not made longer than this for a window's sake: layers in eager attention cost its square."""


def limits_of(config: Any) -> dict[str, int]:
    """Tokens after which another path begins, by the path's name."""
    text = config.get_text_config()
    types = set(getattr(text, "layer_types", None) or ())
    found: dict[str, int] = {}
    window = getattr(text, "sliding_window", None)
    if isinstance(window, int) and (not types or "sliding_attention" in types) and getattr(text, "use_sliding_window", True):
        found[f"beyond the window of {window}"] = window
    chunk = getattr(text, "attention_chunk_size", None)
    if isinstance(chunk, int) and (not types or "chunked_attention" in types):
        found[f"beyond the chunk of {chunk}"] = chunk
    return found


def prompt_tokens(config: Any, usual: int) -> int:
    """The usual length, or what goes beyond every window that is not too long for it."""
    reachable = [limit + MARGIN_TOKENS for limit in limits_of(config).values() if limit + MARGIN_TOKENS <= LONGEST_TOKENS]
    return max(usual, *reachable) if reachable else usual


def paths_of(config: Any, tokens: int) -> tuple[PathReach, ...]:
    """Each such path, and whether a prompt of that many tokens takes it."""
    return tuple(PathReach(name, limit + 1, tokens > limit) for name, limit in limits_of(config).items())
