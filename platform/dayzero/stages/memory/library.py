"""What the modelling library's caches allocate beyond the need (transformers 5.24), named so that a difference is explained."""

from collections.abc import Mapping

from dayzero.domain.architecture import Mixer

CONVOLUTION = "one input of the short convolution more than the next step reads"
LIGHTNING = "lightning attention's state in the native dtype, where float32 is needed"
TWICE = "keys that are values too, kept twice in layers without compression"
GATES = "gates of the last compressed entry in float32"


def library_excess(mixer: Mixer, tokens: int, tp: int, element_bytes: int) -> Mapping[str, int]:
    """Bytes beyond the need of one sequence of so many tokens in one mixer, by what they are; below 0 where the library keeps
    less. Right after a prompt, windows hold the storage of the whole prompt besides, until the next token."""
    state = mixer.recurrence
    excess: dict[str, int] = {}
    if state is not None and state.conv_kernel:
        excess[CONVOLUTION] = -(-state.conv_channels // tp) * element_bytes
    if state is not None and mixer.kind == "linear_attention.lightning" and element_bytes < 4:
        excess[LIGHTNING] = -(-state.heads // tp) * state.key_dim * state.value_dim * (element_bytes - 4)
    if mixer.kind == "attention.compressed" and not mixer.compression:
        excess[TWICE] = min(tokens, mixer.window_tokens or tokens) * (mixer.head_dim or 0) * element_bytes
    if mixer.compression and mixer.indexer is not None and element_bytes < 4:
        excess[GATES] = mixer.compression * ((mixer.head_dim or 0) + mixer.indexer.head_dim) * (4 - element_bytes)
    return excess
