"""The groups of ranks that a rank exchanges with, in the layout's order."""

from typing import Any

import torch
import torch.distributed as dist

from dayzero.adapters.runners.placing import HOST
from dayzero.domain.planning import Degrees
from dayzero.errors import BadInputError
from dayzero.stages.layout.partition import coordinates_of, expert_slices


class Groups:
    """A rank's groups (see layout_partition on the order of ranks). Experts are summed over all ranks that share one set of
    them: dp ranks run the same input, so that each token's experts are all among those ranks."""

    def __init__(self, rank: int, degrees: Degrees) -> None:
        if degrees.cp > 1:
            raise BadInputError(f"{degrees}: ranks cannot be run with a sequence cut over cp ranks.", remedy="Take cp 1.")
        self.rank = rank
        self.per_stage = degrees.tp * degrees.dp
        self.first_of_stage = rank // self.per_stage * self.per_stage
        self.tp_size = degrees.tp
        at = coordinates_of(rank, degrees)
        self.tp_index, self.slice_index = at.tp, at.etp
        self.collectives = 0
        self.tp = self._group(degrees.tp, degrees.world)
        shared = degrees.ep * expert_slices(degrees)
        self.ep = self._group(shared, degrees.world) if shared != degrees.tp else self.tp
        self.tp_span, self.ep_span = self._span(degrees.tp), self._span(shared)

    def _group(self, size: int, world: int) -> Any:
        """Every rank makes every group, as torch wants it; blocks of `size` neighbours."""
        mine = None
        for first in range(0, world, size):
            group = dist.new_group(list(range(first, first + size)))
            if first <= self.rank < first + size:
                mine = group
        return mine

    def _span(self, size: int) -> tuple[int, int]:
        """First rank and number of ranks of the group of that size that this rank is in."""
        return self.rank // size * size, size

    def sum(self, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        """The sum over the group's ranks."""
        summed = tensor.to(HOST).contiguous()
        dist.all_reduce(summed, group=group)
        self.collectives += 1
        return summed.to(tensor.device)

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor-parallel ranks' parts side by side along the last dimension."""
        mine = tensor.to(HOST).contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.tp_size)]
        dist.all_gather(parts, mine, group=self.tp)
        self.collectives += 1
        return torch.cat(parts, dim=-1).to(tensor.device)
