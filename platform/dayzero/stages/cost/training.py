"""Training estimates: seconds of one optimizer step of a plan, from the cost of its forward passes.

Backward takes twice the arithmetic of forward (activations' and weights' gradients; adapters need the activations' alone), its
exchanges once more; full recomputation is one more forward. Context-parallel ranks hold the same weights and share a sequence's
tokens. One-forward-one-backward pipelines stand idle for (pp − 1) / v of a micro-batch with v pieces a rank (Megatron-LM,
arXiv 2104.04473, section 2.2). Gradients are reduced over all ranks with the same weights while backward runs; AdamW then reads
and writes 30 bytes a parameter (gradient 4, master weight and two moments 24, weight 2), its share of them under ZeRO.
"""

from dataclasses import dataclass

from dayzero.domain.costs import Load
from dayzero.domain.planning import Choices, Degrees, Optimizer, Recompute, Training
from dayzero.stages.cost.feed_forward import expert_slices
from dayzero.stages.cost.mixers import ACTIVATION_BYTES
from dayzero.stages.cost.serving import stage_kinds
from dayzero.stages.cost.steps import StepCost
from dayzero.stages.memory.training import replicas_of

_OPTIMIZER_BYTES = {Optimizer.ADAMW: 30, Optimizer.ADAMW_8BIT: 18, Optimizer.SGD: 14, Optimizer.MUON: 22}
"""Bytes read and written for each parameter of a step: gradient, master weight, moments in and out, weight."""
_SELECTIVE = 0.05
"""Share of a forward pass that selective recomputation repeats (attention's core; arXiv 2205.05198 reports 2.7 to 4 %)."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One optimizer step: seconds in all, tokens/s of all devices, and what the seconds are made of.

    `passes_s` is arithmetic and memory of all micro-batches, `exchange_s` what their ranks exchange, `bubble_s` the pipeline's
    idle time, `reduce_s` the gradients' reduction of which `hidden_s` runs beside backward, `update_s` the optimizer.
    """

    step_s: float
    tokens_per_s: float
    micro_batches: int
    passes_s: float
    exchange_s: float
    bubble_s: float
    reduce_s: float
    hidden_s: float
    update_s: float


class TrainingCost:
    """Answers what a training plan would take; None where a link's figures are missing."""

    def __init__(self, steps: StepCost, training: Training) -> None:
        self.steps, self.training = steps, training

    def micro_batches(self, degrees: Degrees, choices: Choices) -> int | None:
        """Micro-batches of a replica in one step; None when the step's sequences do not divide into whole ones."""
        sequences, rest = divmod(self.training.tokens_per_step, self.training.sequence_tokens)
        each = degrees.dp * choices.micro_batch
        return None if rest or sequences % each else sequences // each

    def trained(self, degrees: Degrees, choices: Choices) -> Trained | None:
        """The estimate; None too when the step does not divide into whole micro-batches."""
        count = self.micro_batches(degrees, choices)
        if count is None:
            return None
        slowest = self._slowest(degrees, choices)
        reduced = self._reduce_s(degrees)
        if slowest is None or reduced is None:
            return None
        own, exchanged = slowest
        passes, exchange = count * own, count * exchanged
        bubble = (degrees.pp - 1) / choices.virtual_stages * (own + exchanged)
        hidden = min(reduced, passes * 2 / 3) * self.steps.figures["gradient_overlap"]
        update = self._update_s(degrees)
        total = passes + exchange + bubble + reduced - hidden + update
        return Trained(total, self.training.tokens_per_step / total, count, passes, exchange, bubble, reduced, hidden, update)

    def _slowest(self, degrees: Degrees, choices: Choices) -> tuple[float, float] | None:
        """Arithmetic and exchanges of one micro-batch, forward and backward, on the slowest stage."""
        tokens = choices.micro_batch * self.training.sequence_tokens
        load = Load(tokens, self.training.sequence_tokens // 2, 0, 0)
        lora, full = self.training.lora_rank is not None, self.training.recompute is Recompute.FULL
        again = 1.0 if full else _SELECTIVE if self.training.recompute is Recompute.SELECTIVE else 0.0
        forwards = (2.0 if lora else 3.0) + again
        best: tuple[float, float] | None = None
        for counts, head in stage_kinds(self.steps.class_of, degrees.pp):
            whole = self.steps.stage_s(counts, degrees, load, 2, head=False, compressed=choices.compressed)
            links = self.steps.exchange_s(counts, degrees, load, compressed=choices.compressed)
            if whole is None or links is None:
                return None
            own = (whole - links + (self.steps.head_s(tokens / degrees.cp, degrees.tp) if head else 0.0)) * forwards
            exchanged = links * (2.0 + (1.0 if full else 0.0))
            if best is None or own + exchanged > sum(best):
                best = own, exchanged
        if best is None or degrees.pp == 1:
            return best
        message = tokens * (self.steps.spec.hidden_size or 0) * ACTIVATION_BYTES / degrees.tp / degrees.cp
        hop = self.steps.network.point_to_point(message, degrees.tp * degrees.cp * degrees.dp, degrees.world)
        return None if hop is None else (best[0], best[1] + 2 * hop * choices.virtual_stages)

    def _reduce_s(self, degrees: Degrees) -> float | None:
        """All-reduce of the gradients over replicas; ZeRO 3 gathers weights for both passes beside it."""
        dense, experts = self._parameters(degrees)
        replicas, tp = replicas_of(degrees), degrees.tp
        times = 2.0 if self.training.zero == 3 and self.training.lora_rank is None else 1.0
        total = 0.0
        for parameters, size in ((dense, replicas.dense), (experts, replicas.experts)):
            apart = tp * replicas.dense // size
            seconds = self.steps.network.all_reduce(parameters * 2, size, apart) if parameters else 0.0
            if seconds is None:
                return None
            total += seconds * times
        return total

    def _update_s(self, degrees: Degrees) -> float:
        dense, experts = self._parameters(degrees)
        if self.training.zero >= 1:
            replicas = replicas_of(degrees)
            dense, experts = dense / replicas.dense, experts / replicas.experts
        return (dense + experts) * _OPTIMIZER_BYTES[self.training.optimizer] / self.steps.roofline.stream_bytes_per_s

    def _parameters(self, degrees: Degrees) -> tuple[float, float]:
        """Parameters that are trained on a rank of the fullest stage: outside of experts, and in them."""
        rank = self.training.lora_rank
        best = (0.0, 0.0)
        for counts, head in stage_kinds(self.steps.class_of, degrees.pp):
            dense = experts = 0.0
            for kind, count in counts:
                always, each, held = self.steps.matrices_of(kind)
                dense += count * sum(
                    _trained(matrix.rows, matrix.columns, matrix.slices(degrees.tp), rank) for matrix in always
                )
                if rank is None:
                    size = sum(matrix.rows * matrix.columns for matrix in each)
                    experts += count * size * held / degrees.ep / expert_slices(degrees)
            if (head or degrees.pp == 1) and rank is None:
                dense += (self.steps.spec.vocabulary_size or 0) * (self.steps.spec.hidden_size or 0)
            best = max(best, (dense, experts), key=sum)
        return best


def _trained(rows: int, columns: int, slices: int, rank: int | None) -> float:
    return rows * columns / slices if rank is None else rank * (rows + columns / slices)
