"""From the shards of one plan to those of another: the checkpoint that they were cut from, as far as they tell it.

With stages.layout.joining, which says where in the rank files each whole tensor lies (copies, padding and order of experts
undone), a layout for other degrees needs no hub.
"""

from math import prod

from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError


def index_of_shards(manifest: ShardManifest) -> CheckpointIndex:
    """The tensors of the checkpoint, each in the file and from the byte that it was cut from, so that a layout made from them
    equals one made from the checkpoint itself. BadInputError: a manifest without rules."""
    rules = manifest.rules
    if rules is None:
        raise BadInputError(
            f"the manifest of {manifest.degrees} does not say what its shards were cut from.", remedy="Shard the model anew."
        )
    found = []
    for name, number, file, begin, _ in rules.tensors:
        cut = rules.cuts[number]
        size_bytes = prod(cut.shape) * DTYPE_BITS[cut.dtype] // 8
        found.append(TensorHeader(name, cut.dtype, cut.shape, rules.files[file], begin, begin + size_bytes))
    return CheckpointIndex(tuple(sorted(found, key=lambda header: header.name)))
