"""PARALLEL: ranks over gloo that hold nothing but their own shard files, against one process that holds everything.

Both compute in float32 (weights are widened to it exactly), and both are judged against float64, so that only what parallelism
changes is left. Every module's output is fingerprinted on the way; where the ranks first leave one process, that module alone
runs once more with its tensors kept.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.library_rank import ENGINE as LIBRARY
from dayzero.adapters.runners.library_rank import LibraryTask, distribution, run_library_rank
from dayzero.adapters.runners.parallel_reference import Alone, cuts_of, keep_alone, observed_of, run_alone
from dayzero.adapters.runners.rank import run_rank
from dayzero.adapters.runners.rank_forking import Body, run_apart, run_ranks
from dayzero.adapters.runners.rank_task import PlantedSum, RankTask
from dayzero.adapters.runners.replaying import replayed
from dayzero.codec import load
from dayzero.domain.fingerprints import Divergence, RankPrints, Replay
from dayzero.domain.observed_parallel import ParallelObserved, RankObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import RunRequest
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError
from dayzero.stages.fingerprints.comparing import first_divergent
from dayzero.stages.structure.families import sharding_proven
from dayzero.stages.structure.reading import read_spec

TOKENS = 24
BLOCK = 8
RANK_TIMEOUT_S = 1800.0
OURS = "dayzero"


def observe_parallel(request: RunRequest) -> ParallelObserved:
    """Logits of the packaged text's first tokens. BadInputError: no shards, or shards of another plan.

    Option `engine` (dayzero, or transformers: the library's own ranks, which need no shards). Options `skip_all_reduce=LAYER`
    or `double_all_reduce=LAYER`, on one rank with `planted_rank=RANK`, plant a fault in our own ranks, to show that the check
    can fail. `token_block` tokens share a fingerprint.
    """
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request).resolve()
    config = loading.read_config(folder)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], loading.option_int(request, "tokens", TOKENS, 2))
    at = Path.cwd() / "ranks"
    at.mkdir()
    crew = _crew(request, folder, tuple(int(token) for token in given.ids[0]), at)
    run_ranks(crew.bodies(), at)
    printed = tuple(load(RankPrints, Path(task.prints).read_bytes()) for task in crew.tasks)
    answer, log = at / "alone.json", at / "alone.log"
    first = crew.tasks[0]
    run_apart(partial(run_alone, folder, given.ids, Path(first.logits), cuts_of(printed), first.token_block, answer), log)
    ranks = tuple(load(RankObserved, Path(task.answer).read_bytes()) for task in crew.tasks)
    found = observed_of(request.degrees, given, load(Alone, answer.read_bytes()), printed, ranks, crew.engine)
    assert found.prints is not None
    divergence = first_divergent(found.prints)
    replay = None if divergence is None else _replay(divergence, crew, folder, given.ids, at)
    return replace(found, notes=(*found.notes, *crew.notes), replay=replay, observed_s=time.monotonic() - began)


Task = RankTask | LibraryTask


@dataclass(frozen=True, slots=True)
class _Crew:
    """The ranks of a run, ours or the library's, and what is to be said of them."""

    engine: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...]

    def bodies(self) -> list[Body]:
        """What each rank's process does."""
        return [
            partial(run_rank, task) if isinstance(task, RankTask) else partial(run_library_rank, task) for task in self.tasks
        ]


def _crew(request: RunRequest, folder: Path, ids: tuple[int, ...], at: Path) -> _Crew:
    engine = request.options.get("engine", OURS)
    block = loading.option_int(request, "token_block", BLOCK)
    places = [
        (str(at / "logits.safetensors"), str(at / f"rank-{rank}.json"), str(at / f"prints-{rank}.json"))
        for rank in range(request.degrees.world)
    ]
    meeting = f"file://{at / 'meeting'}"
    if engine == LIBRARY:
        distribution(request.degrees)
        return _Crew(LIBRARY, tuple(
            LibraryTask(
                rank, request.degrees, str(folder), ids, meeting, logits, answer, RANK_TIMEOUT_S, prints, block
            )
            for rank, (logits, answer, prints) in enumerate(places)
        ), ())  # fmt: skip
    if engine != OURS:
        raise BadInputError(f"there is no engine {engine}.", remedy=f"Take {OURS} or {LIBRARY}.")
    shards, planted = shards_of(request), _planted(request)
    _require_proven((folder / "config.json").read_bytes(), request.degrees)
    tasks = tuple(
        RankTask(
            rank, request.degrees, str(folder), str(shards), ids, "float32", meeting, logits, answer, RANK_TIMEOUT_S, planted,
            request.device, request.bridges, prints=prints, token_block=block,
        )
        for rank, (logits, answer, prints) in enumerate(places)
    )  # fmt: skip
    return _Crew(OURS, tasks, _notes(request, planted))


def _planted(request: RunRequest) -> PlantedSum | None:
    for name in ("skip_all_reduce", "double_all_reduce"):
        if name in request.options:
            rank = loading.option_int(request, "planted_rank", 0, 0) if "planted_rank" in request.options else None
            return PlantedSum(loading.option_int(request, name, 0, 0), rank, name.startswith("double"))
    return None


def _notes(request: RunRequest, planted: PlantedSum | None) -> tuple[str, ...]:
    notes: tuple[str, ...] = (f"ranks computed on {request.device.torch_device}",) if request.device else ()
    notes += ("every data-parallel rank ran the same input",) if request.degrees.dp > 1 else ()
    if planted is None:
        return notes
    where = "" if planted.rank is None else f" of rank {planted.rank}"
    return (*notes, f"a sum over ranks was {'taken twice' if planted.doubled else 'left out'} in layer {planted.layer}{where}")


def _replay(divergence: Divergence, crew: _Crew, folder: Path, ids: torch.Tensor, at: Path) -> Replay | None:
    """The divergent operator alone."""
    tasks = tuple(
        replace(task, meeting=f"{task.meeting}-again", prints=str(at / f"kept-{task.rank}"), replay=divergence.module)
        for task in crew.tasks
    )
    run_ranks(replace(crew, tasks=tasks).bodies(), at)
    alone = at / "kept-alone"
    run_apart(partial(keep_alone, folder, ids, divergence.module, alone), at / "alone.log")
    return replayed(divergence, [Path(task.prints) for task in tasks], alone)


def _require_proven(config: bytes, degrees: Degrees) -> None:
    """Ranks hook into modules by rules that were proven one family after the other."""
    spec = read_spec(config, None)
    if max(degrees.tp, degrees.pp, degrees.ep, degrees.etp) > 1 and not sharding_proven(spec):
        name = spec.model_type or spec.architecture or "this model"
        raise BadInputError(
            f"the sharding rules of {name} are derived from its structure; ranks run by proven rules only.",
            remedy="Run it whole on each rank (dp), or prove its rules first.",
        )


def shards_of(request: RunRequest) -> Path:
    """The shards' folder, checked against the request's degrees."""
    if request.shards_dir is None:
        raise BadInputError("the request names no shards.", remedy="Shard the model first.")
    shards = Path(request.shards_dir).resolve()
    manifest = read_manifest(shards)
    if manifest.degrees != request.degrees:
        raise BadInputError(
            f"the shards are of {manifest.degrees}, the run of {request.degrees}.", remedy="Shard the model for this plan."
        )
    return shards


def read_manifest(shards: Path) -> ShardManifest:
    """The manifest of a folder of shards; BadInputError where there is none."""
    if not (shards / "manifest.json").is_file():
        raise BadInputError(f"there are no shards at {shards}.", remedy="Shard the model first.")
    return load(ShardManifest, (shards / "manifest.json").read_bytes())
