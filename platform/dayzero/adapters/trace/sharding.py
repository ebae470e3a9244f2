"""A model sharded as its library shards it, by a process group that only pretends. Imported by child processes only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed


class ShardingError(Exception):
    """The library has no plan for the model, or its plan does not work at this degree."""


@contextmanager
def sharded(model: Any, tp: int) -> Iterator[None]:
    """Rank 0 of `tp` ranks, by the library's own tensor-parallel plan; afterwards the model is whole again.

    ShardingError says why that cannot be.
    """
    if not getattr(model, "tp_plan", None):
        raise ShardingError(f"{type(model).__name__} has no tensor-parallel plan in its library")
    # One object a module: its parameters and the forward that it may have been given.
    whole = [(one, dict(one._parameters), one.__dict__.get("forward")) for one in model.modules()]
    with _group(tp) as mesh:
        try:
            _shard(model, mesh, tp)
            yield
        finally:
            for module, parameters, forward in whole:
                module._parameters.clear()
                module._parameters.update(parameters)
                module.__dict__.pop("forward", None)
                if forward is not None:
                    module.forward = forward


def uneven_heads(config: Any, tp: int) -> str | None:
    """Which heads do not divide by the degree, in words: why a plan that splits heads evenly fails; None where all do."""
    for name in ("num_attention_heads", "num_key_value_heads"):
        try:
            heads = getattr(config, name, None)
        except Exception:  # noqa: BLE001 - a figure that differs between layers raises the library's own error
            continue
        if isinstance(heads, int) and heads % tp:
            return f"{name} {heads} does not divide by {tp}, and the library's plan splits heads evenly"
    return None


@contextmanager
def _group(tp: int) -> Iterator[Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=tp)
    try:
        yield init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))
    finally:
        distributed.destroy_process_group()


def _shard(model: Any, mesh: Any, tp: int) -> None:
    try:
        from transformers.distributed.configuration_utils import DistributedConfig
        from transformers.distributed.tensor_parallel import apply_tensor_parallelism

        plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=tp, tp_plan="auto"))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ShardingError(f"{type(error).__name__}: {error}") from error
    with torch.device("meta"):
        apply_tensor_parallelism(model, mesh, plan)
