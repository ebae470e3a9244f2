"""Tiny checkpoints of any family that the modelling library builds, with dummy weights from a seed."""

from pathlib import Path

from tiny_families import FAMILIES


def dummy_model(family: str, seed: int, dtype: str, into: Path) -> str:
    """The folder of a checkpoint of the family in the dtype."""
    from transformers import AutoConfig

    from dayzero.adapters.runners.dummy_weights import with_dummy_weights
    from dayzero.domain.runs import Observation, RunRequest

    config = AutoConfig.for_model(family, **FAMILIES[family])
    config.dtype = dtype
    config.save_pretrained(into / "config")
    request = RunRequest(Observation.LAYERS, "cpu", str(into / "config"), dtype=dtype, options={"dummy_seed": seed})
    made = with_dummy_weights(request, into / "model").model_dir
    assert made is not None
    return made
