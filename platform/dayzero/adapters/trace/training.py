"""A training step: forward, loss and gradients, layer by layer where layers are folded. Imported by child processes only."""

from inspect import signature
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dayzero.adapters.trace.recording import Recorder


def step_of(run: Any, args: Any, kwargs: Any, recorder: Recorder) -> Any:
    """One layer's forward and its gradient, recorded one after the other; returns what the layer gave, cut from its graph.

    The gradient is taken of everything that the layer gave, with respect to its inputs and its parameters.
    """
    with recorder.muted():
        leaves, spec = tree_flatten((args, kwargs))
        leaves = [leaf.detach().requires_grad_() if _learns(leaf) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(leaves, spec)
    out = run(*args, **kwargs)
    given = [leaf for leaf in tree_leaves(out) if _learns(leaf)]
    wanted = [leaf for leaf in leaves if _learns(leaf)] + [one for one in _parameters(run) if one.requires_grad]
    if given and wanted:
        with recorder.muted():
            directions = [torch.empty_like(one) for one in given]
        torch.autograd.grad(given, wanted, grad_outputs=directions, allow_unused=True)
    with recorder.muted():
        return tree_map(lambda leaf: leaf.detach().requires_grad_() if _learns(leaf) else leaf, out)


def joined(out: Any, inputs: Any, recorder: Recorder) -> Any:
    """The kept result of a layer, tied to the inputs of this call, so that gradients flow on to what came before."""
    learning = [leaf for leaf in tree_leaves(inputs) if _learns(leaf)]
    if not learning:
        return out
    with recorder.muted():
        leaves, spec = tree_flatten(out)
        places = [place for place, leaf in enumerate(leaves) if _learns(leaf)]
        made = _Joint.apply(recorder, tuple(leaves[place].detach() for place in places), *learning)
        for place, leaf in zip(places, made, strict=True):
            leaves[place] = leaf
        return tree_unflatten(leaves, spec)


class _Joint(torch.autograd.Function):  # type: ignore[misc]
    """Gives kept results as if they were made of the inputs; their gradient was recorded already."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, kept: Any, *inputs: Any) -> Any:
        ctx.recorder = recorder
        ctx.likes = [(one.shape, one.dtype, one.device) for one in inputs]
        return tuple(torch.empty_like(one) for one in kept)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with ctx.recorder.muted():
            empties = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.likes]
        return None, None, *empties


def train_once(model: Any, tokens: Any, mask: Any) -> None:
    """Forward with labels, loss, and gradients down to the embeddings; ValueError for a model that takes no labels."""
    if "labels" not in signature(model.forward).parameters:
        raise ValueError(f"{type(model).__name__} takes no labels, so it has no loss of its own")
    options = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
    model.train()
    try:
        with torch.enable_grad():
            out = model(input_ids=tokens, attention_mask=mask, labels=tokens, **options)
            out.loss.backward()
    finally:
        model.eval()
        model.zero_grad(set_to_none=True)


def _learns(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _parameters(run: Any) -> list[Any]:
    owner = getattr(run, "__self__", None)
    return list(owner.parameters()) if isinstance(owner, torch.nn.Module) else []
