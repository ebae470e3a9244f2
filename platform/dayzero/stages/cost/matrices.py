"""The matrices that a layer multiplies by, from the tensors of its structure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dayzero.domain.architecture import FeedForward, Mixer, ModelSpec
from dayzero.domain.costs import Matrix
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.feed_forward import EXPERTS, LATENT, ROUTER, feed_forward_tensors
from dayzero.stages.parameters.mixers import mixer_tensors
from dayzero.stages.parameters.weights import storage_of
from dayzero.stages.structure.families import Family, family_of

_WHOLE = ("q_a_proj", "kv_a_proj_with_mqa", "kv_proj", "f_a_proj", "g_a_proj")
"""Projections to what all heads share: every rank of a tensor-parallel group computes them whole."""
_NO_MATRICES = ("A_log", "position_bias", "dt_bias")

Storage = Callable[[ExpectedTensor], tuple[int, str | None]]


@dataclass(frozen=True, slots=True)
class FeedForwardMatrices:
    """What a feed-forward multiplies by: for every token, and for each of a token's experts (one expert's matrices)."""

    always: tuple[Matrix, ...]
    expert: tuple[Matrix, ...]


def mixer_matrices(spec: ModelSpec, mixer: Mixer) -> tuple[Matrix, ...]:
    """The linear layers of one mixer; () when nobody knows the architecture's structure rules."""
    family = family_of(spec)
    if family is None:
        return ()
    storage, tensors = storage_of(spec), mixer_tensors(0, mixer, family, spec.hidden_size or 0)
    return tuple(_matrix(tensor, mixer, storage) for tensor in tensors if _is_matrix(tensor))


def feed_forward_matrices(spec: ModelSpec, feed_forward: FeedForward | None) -> FeedForwardMatrices:
    """The linear layers of one feed-forward; empty when nobody knows the architecture's structure rules."""
    family = family_of(spec)
    if family is None or feed_forward is None:
        return FeedForwardMatrices((), ())
    tensors = tuple(feed_forward_tensors(0, feed_forward, family, spec.hidden_size or 0))
    storage = storage_of(spec)
    experts = [tensor for tensor in tensors if tensor.component == EXPERTS and tensor.name.rpartition("_")[2] != "bias"]
    always = [tensor for tensor in tensors if tensor.component != EXPERTS and _is_matrix(tensor)]
    return FeedForwardMatrices(
        tuple(_dense(tensor, storage) for tensor in always), tuple(_expert(experts, feed_forward, family, storage))
    )


def head_matrix(spec: ModelSpec) -> Matrix:
    """The language-model head, in the native dtype."""
    rows, columns = spec.vocabulary_size or 0, spec.hidden_size or 0
    stored, _ = storage_of(spec)(ExpectedTensor(None, "lm_head.weight", (rows, columns), "head"))
    return Matrix("lm_head", rows, columns, stored, None)


def _is_matrix(tensor: ExpectedTensor) -> bool:
    return len(tensor.shape) == 2 and not tensor.name.endswith(_NO_MATRICES)


def _matrix(tensor: ExpectedTensor, mixer: Mixer, storage: Storage) -> Matrix:
    stored, scheme = storage(tensor)
    module = tensor.name.split(".", 1)[1]
    name = module.removesuffix(".weight")
    most = 0
    if name in _WHOLE or name.startswith(("indexer.", "compressor.")):
        most = 1
    elif name in ("k_proj", "v_proj") and mixer.recurrence is None:
        most = max(1, mixer.kv_heads or 1)
    return Matrix(name, tensor.shape[0], tensor.shape[1], stored, scheme, most)


def _dense(tensor: ExpectedTensor, storage: Storage) -> Matrix:
    stored, scheme = storage(tensor)
    most = 1 if tensor.component in (ROUTER, LATENT) else 0
    return Matrix(tensor.name.removesuffix(".weight"), tensor.shape[0], tensor.shape[1], stored, scheme, most)


def _expert(tensors: Iterable[ExpectedTensor], feed_forward: FeedForward, family: Family, storage: Storage) -> list[Matrix]:
    count = max(1, feed_forward.routed_experts)
    matrices = []
    for tensor in tensors:
        stored, scheme = storage(tensor)
        rows, columns = tensor.shape[-2:]
        matrices.append(Matrix(_expert_name(tensor.name), rows, columns, stored / count, scheme))
    return matrices


def _expert_name(name: str) -> str:
    return name.split("experts.")[-1].removeprefix("{e}.").removesuffix(".weight")
