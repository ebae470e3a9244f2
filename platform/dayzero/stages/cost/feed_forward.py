"""Operators of a feed-forward in closed form: dense, shared and routed experts after sharding."""

from collections.abc import Iterator

from dayzero.domain.architecture import FeedForward
from dayzero.domain.costs import Operation
from dayzero.domain.planning import Degrees
from dayzero.stages.cost.matrices import FeedForwardMatrices
from dayzero.stages.cost.mixers import ACTIVATION_BYTES, linear


def feed_forward_operations(
    feed_forward: FeedForward, matrices: FeedForwardMatrices, tokens: float, degrees: Degrees, imbalance: float = 1.0
) -> Iterator[Operation]:
    """Operators of one feed-forward on one rank, when each replica of attention brings so many tokens. The busiest of the
    expert-parallel ranks has `imbalance` times the mean share of them."""
    yield from linear(matrices.always, tokens, degrees.tp)
    if feed_forward.routed_experts:
        yield from _experts(feed_forward, matrices, tokens, degrees, imbalance)


def touched_experts(experts: int, per_token: int, tokens: float) -> float:
    """How many of the experts a batch is expected to touch, each token taking `per_token` of them evenly at random."""
    if not experts:
        return 0.0
    missed: float = (1.0 - min(1.0, per_token / experts)) ** tokens
    return experts * (1.0 - missed)


def expert_slices(degrees: Degrees) -> int:
    """Into how many slices one expert is cut: by tp without expert parallelism, else by etp."""
    return degrees.tp if degrees.ep == 1 and degrees.etp == 1 else degrees.etp


def expert_share(feed_forward: FeedForward, tokens: float, degrees: Degrees, imbalance: float) -> tuple[float, float]:
    """Pairs of token and expert that the busiest rank computes, and how many experts it reads, when each replica of attention
    brings so many tokens: the replicas that share one set of experts send all of theirs."""
    all_tokens = tokens * degrees.attention_dp
    held = feed_forward.routed_experts + feed_forward.zero_experts
    share = feed_forward.routed_experts / held / degrees.ep
    pairs = all_tokens * feed_forward.experts_per_token * share * min(imbalance, degrees.ep)
    return pairs, touched_experts(held, feed_forward.experts_per_token, all_tokens) * share


def permutation(matrices: FeedForwardMatrices, pairs: float) -> Operation:
    """Sorting tokens by expert and back: read and written twice."""
    width = matrices.expert[0].columns if matrices.expert else 0
    return Operation("permute", 0.0, 4 * pairs * width * ACTIVATION_BYTES, "native", "gemm", "stream", 2)


def _experts(
    feed_forward: FeedForward, matrices: FeedForwardMatrices, tokens: float, degrees: Degrees, imbalance: float
) -> Iterator[Operation]:
    slices = expert_slices(degrees)
    pairs, touched = expert_share(feed_forward, tokens, degrees, imbalance)
    for matrix in matrices.expert:
        flops = 2.0 * pairs * matrix.rows * matrix.columns / slices
        moved = touched * matrix.stored_bytes / slices + pairs * (matrix.rows + matrix.columns) / slices * ACTIVATION_BYTES
        yield Operation(f"experts {matrix.name}", flops, moved, matrix.scheme or "native", "experts", "expert_stream")
    yield permutation(matrices, pairs)
