"""Bytes that a feed-forward holds at its fullest moment in one forward step, and the buffers that bring tokens to experts."""

from dayzero.domain.architecture import FeedForward
from dayzero.stages.memory.step import Execution, Step


def feed_forward_bytes(feed_forward: FeedForward | None, step: Step, execution: Execution) -> int:
    """The fullest moment of one feed-forward on one rank, with its normed input and without its residual."""
    if feed_forward is None:
        return 0
    normed = step.tokens * step.hidden * step.element_bytes
    if not feed_forward.routed_experts:
        return normed + _dense(feed_forward.intermediate_size or 0, feed_forward.gated, step)
    routed = normed + _router(feed_forward, step) + _experts(feed_forward, step, execution)
    beside = (feed_forward.shared_intermediate_size or 0) + (feed_forward.dense_size or 0)
    if not beside:
        return routed
    # The routed experts' output waits while the shared ones run.
    return max(routed, 2 * normed + _dense(beside, feed_forward.gated, step))


def _dense(intermediate: int, gated: bool, step: Step) -> int:
    """Gate, up and their product; then the product with the output. Without a gate: before and after the activation."""
    cut = -(-intermediate // step.tp)
    widest = max((3 if gated else 2) * cut, cut + step.hidden)
    return step.tokens * widest * step.element_bytes


def _router(feed_forward: FeedForward, step: Step) -> int:
    """Logits and scores of every expert, in float32; weights and numbers (64-bit) of the chosen ones."""
    experts = feed_forward.routed_experts + feed_forward.zero_experts
    return step.tokens * (2 * 4 * experts + (4 + 8) * feed_forward.experts_per_token)


def _experts(feed_forward: FeedForward, step: Step, execution: Execution) -> int:
    """Output of the routed experts, and what their tokens take on the way.

    Fused kernels keep gate and up, and their product; the input or the output of the copies shares the first buffer (vLLM's
    fused_experts: intermediate_cache1 and 3 are one allocation). One operator at a time, the gathered input stays beside
    gate, up and product, and then beside the output and its weighted copy. A loop over experts holds one expert's tokens,
    taken as an even share.
    """
    width = feed_forward.latent_size or step.hidden
    per_token, experts = feed_forward.experts_per_token, feed_forward.routed_experts
    cut = -(-(feed_forward.intermediate_size or 0) // (step.tp if step.ep == 1 else step.etp))
    copies = step.expert_tokens(per_token, experts)
    first = (2 if feed_forward.gated else 1) * cut
    output = step.tokens * width * step.element_bytes
    if execution.fused_elementwise:
        return output + copies * (max(first, width) + cut) * step.element_bytes
    if execution.experts == "loop":
        copies = -(-copies // max(1, experts // step.ep))
    moments = (width + first + 2 * cut, width + cut + width, 3 * width)
    return output + copies * max(moments) * step.element_bytes


def dispatch_bytes(feed_forward: FeedForward | None, step: Step, compressed: bool) -> int:
    """Buffers of the two all-to-alls of expert parallelism: copies sent and taken in on the way to the experts (a byte an
    element when compressed), and the same back. Each tp rank of a replica sends its share of the tokens."""
    if feed_forward is None or not feed_forward.routed_experts or step.ep == 1:
        return 0
    width = feed_forward.latent_size or step.hidden
    per_token = feed_forward.experts_per_token
    sent = -(-step.tokens * min(per_token, step.ep) // step.tp)
    taken = step.expert_tokens(per_token, feed_forward.routed_experts)
    there = 1 if compressed else step.element_bytes
    return (sent + taken) * width * (there + step.element_bytes)
