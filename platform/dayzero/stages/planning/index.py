"""Headers that a checkpoint will have, from the structure alone: what pre-staging lays out with."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout.stored import stored_findings, stored_tensors


def predicted_index(spec: ModelSpec) -> CheckpointIndex | None:
    """The tensors that a checkpoint of the structure holds, one header each; None when structure or dtype are unknown.

    The finding `plan.predicted_weights` says what was done. A plan asks weight_table instead, which keeps experts in groups.
    """
    stored = stored_tensors(spec)
    if stored is None:
        return None
    at, headers = 0, []
    for tensor in stored:
        for expert in range(tensor.experts):
            header = tensor.header(at, expert)
            headers.append(header)
            at = header.end
    return CheckpointIndex(tuple(sorted(headers, key=lambda header: header.name)), stored_findings(spec, at))
