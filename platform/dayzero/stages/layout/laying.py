"""Layout: which rank holds which slice of which tensor, and where it lies in the rank's file. Headers only, no values."""

from collections.abc import Iterable

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.headers.files import disagreement
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.layout.partition import Partition, coordinates_of, partition_of, stage_layers
from dayzero.stages.layout.ranks import RankFiles, rank_path, shard_header
from dayzero.stages.layout.runs import PartitionKind
from dayzero.stages.layout.shares import (
    Share,
    TensorGroup,
    group_tensors,
    weight_bytes_by_rank,
    weight_shares,
)
from dayzero.stages.layout.table import shard_rules
from dayzero.stages.structure.families import family_of, sharding_proven

__all__ = [
    "Partition", "PartitionKind", "Share", "TensorGroup", "UncuttableError", "coordinates_of", "group_tensors", "lay_out",
    "layout_findings", "partition_of", "rank_path", "shard_header", "stage_layers", "weight_bytes_by_rank", "weight_shares",
]  # fmt: skip


def lay_out(
    content_id: str,
    spec: ModelSpec,
    index: CheckpointIndex,
    degrees: Degrees,
    redundant_experts: int = 0,
    *,
    ranks: Iterable[int] | None = None,
) -> ShardManifest:
    """The unwritten shards of a checkpoint: one safetensors file a rank, offsets final, digests None; of the ranks that are
    asked for, in their order, or of all.

    BadInputError when the structure does not allow the degrees (the reasons are in the message), UncuttableError when a tensor
    does not. A model without structure rules is whole on every rank; layout_findings says so.
    """
    refused = violations(spec, degrees, redundant_experts)
    if refused:
        reasons = "; ".join(rejection.reason for rejection in refused)
        raise BadInputError(f"the weights cannot be laid out for {degrees}: {reasons}.", remedy="Take a plan that fits.")
    wrong = disagreement(index.findings)
    if wrong is not None:
        raise BadInputError(f"index, files and headers disagree: {wrong}.", remedy="Its publisher has to mend the repository.")
    asked = range(degrees.world) if ranks is None else sorted(set(ranks))
    strange = [rank for rank in asked if not 0 <= rank < degrees.world]
    if strange:
        raise BadInputError(f"{degrees} has no rank {strange[0]}.", remedy=f"Its ranks are 0 to {degrees.world - 1}.")
    redundant = redundant_experts if degrees.ep > 1 else 0
    rules = shard_rules(spec, index, degrees)
    made = RankFiles(content_id, rules, degrees, redundant)
    return ShardManifest(content_id, degrees, tuple(made.file_of(rank) for rank in asked), redundant, rules)


def layout_findings(spec: ModelSpec) -> tuple[Finding, ...]:
    """What a reader of the layout should know."""
    name = spec.model_type or spec.architecture or "unnamed"
    family = family_of(spec)
    if family is None or not (family.sharded or family.derived):
        return (Finding("layout.replicated", name, f"no sharding rules are known for {name}: every rank holds all weights"),)
    if sharding_proven(spec):
        return ()
    message = f"the sharding rules of {name} are derived from its structure; no parallel run here has proven them"
    return (Finding("layout.derived", name, message, Severity.WARNING),)
