"""What stands beside a parallel run: one process that holds everything, in the ranks' dtype and layer by layer in float64."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.figures import dtype_name, tensor_error
from dayzero.adapters.runners.heads import wide_logits
from dayzero.adapters.runners.measuring import parameters_of
from dayzero.adapters.runners.replaying import Keeper
from dayzero.adapters.runners.sketching import Cuts, Sketcher, watch
from dayzero.codec import dump
from dayzero.domain.fingerprints import Fingerprints, Point, RankPrints
from dayzero.domain.observations import TensorError
from dayzero.domain.observed_parallel import ParallelObserved, RankObserved
from dayzero.domain.planning import Degrees
from dayzero.errors import DayzeroError


@dataclass(frozen=True, slots=True)
class Alone:
    """What one process found: errors of the ranks' logits and of its own, its fingerprints, its number of parameters, and what
    it lacks."""

    target: TensorError
    native: TensorError
    between: TensorError
    top1_agreement: float
    wide_prints: RankPrints
    native_prints: RankPrints
    parameters: int
    lacks: str = ""


WIDE_LACKS = "the model's code runs in float32 alone: one process in it stands for the higher precision"


def cuts_of(ranks: tuple[RankPrints, ...]) -> Cuts:
    """The parts of outputs that any rank holds."""
    found: dict[str, set[tuple[int, int]]] = {}
    for run in ranks:
        for one in run.prints:
            if one.first is not None and one.point is Point.OUTPUT:
                found.setdefault(one.module, set()).add((one.first, one.channels))
    return {module: frozenset(parts) for module, parts in found.items()}


def run_alone(folder: Path, ids: torch.Tensor, logits: Path, cuts: Cuts, token_block: int, answer: Path) -> None:
    """Compute, compare the ranks' logits, and write an Alone."""
    loading.quiet()
    single = loading.load_model(folder, torch.float32)
    looks = Sketcher(ids.shape[1], token_block, cuts=cuts)
    handles = watch(single, looks)
    with torch.no_grad():
        alone = single(ids, use_cache=False).logits[0]
    for handle in handles:
        handle.remove()
    native = looks.prints(-1)
    exact, wide, why = _wide(single, ids, Sketcher(ids.shape[1], token_block, cuts=cuts)) or (alone, native, WIDE_LACKS)
    parallel = load_file(logits)["logits"]
    found = Alone(
        tensor_error(parallel, exact),
        tensor_error(alone, exact),
        tensor_error(parallel, alone),
        float((parallel.argmax(-1) == exact.argmax(-1)).to(torch.float64).mean()),
        wide,
        native,
        parameters_of(single),
        why,
    )
    answer.write_bytes(dump(found))


def _wide(single: Any, ids: torch.Tensor, looks: Sketcher) -> tuple[torch.Tensor, RankPrints, str] | None:
    """Logits and fingerprints in float64; None where the model's code knows no such run, and the log says why."""
    handles = watch(single, looks)
    try:
        return wide_logits(single, ids, torch.float64), looks.prints(-1), ""
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, DayzeroError) as error:
        print(f"no run in float64: {type(error).__name__}: {error}")
        return None
    finally:
        for handle in handles:
            handle.remove()


def keep_alone(folder: Path, ids: torch.Tensor, module: str, into: Path) -> None:
    """The tensors of one module, kept whole."""
    loading.quiet()
    single = loading.load_model(folder, torch.float32)
    keeper = Keeper(module)
    watch(single, keeper)
    keeper.watch_given(single)
    with torch.no_grad():
        single(ids, use_cache=False)
    keeper.save(into)


def observed_of(
    degrees: Degrees,
    given: loading.TokenInput,
    alone: Alone,
    printed: tuple[RankPrints, ...],
    ranks: tuple[RankObserved, ...],
    engine: str,
) -> ParallelObserved:
    """What ranks and one process found, side by side."""
    prints = Fingerprints(dtype_name(torch.float32), alone.wide_prints, alone.native_prints, printed)
    return ParallelObserved(
        degrees, dtype_name(torch.float32), dtype_name(torch.float32 if alone.lacks else torch.float64), given.ids.shape[1],
        given.source, alone.target, alone.native, alone.between, alone.top1_agreement, ranks,
        (alone.lacks,) if alone.lacks else (),
        parameters=alone.parameters, prints=prints, engine=engine,
    )  # fmt: skip
