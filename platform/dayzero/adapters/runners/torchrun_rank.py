"""A rank that torchrun started, on any number of nodes: the full plan, where no one host has its devices.

    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \\
        -m dayzero.adapters.runners.torchrun_rank MODEL_DIR SHARDS_DIR OUT_DIR [TOKENS]

Every node has the model's small files, and in SHARDS_DIR the shards of its own ranks (`dayzero fetch --ranks`); the first
node has the whole checkpoint, beside which its rank judges. It prints one JSON document and leaves what was observed in
OUT_DIR. Exit code 1: a check fails; 3: one could not be measured.
"""

import os
import sys
from pathlib import Path

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.observe_parallel import BLOCK, OURS, RANK_TIMEOUT_S, TOKENS, read_manifest
from dayzero.adapters.runners.parallel_reference import Alone, cuts_of, observed_of, run_alone
from dayzero.adapters.runners.rank import run_rank
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.codec import dump, load
from dayzero.domain.canonical import canonical_json
from dayzero.domain.fingerprints import RankPrints
from dayzero.domain.observed_parallel import RankObserved
from dayzero.domain.verdict import Verdict
from dayzero.errors import BadInputError, DayzeroError, ExitCode
from dayzero.stages.judging.parallel import parallel_checks

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells its processes."""


def main(arguments: list[str]) -> int:
    """Run this process's rank; the first one judges."""
    try:
        return _main(arguments)
    except DayzeroError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _main(arguments: list[str]) -> int:
    if len(arguments) not in (3, 4) or (len(arguments) == 4 and not arguments[3].isdigit()):
        raise BadInputError("a rank is told MODEL_DIR SHARDS_DIR OUT_DIR [TOKENS].", remedy="Name them behind the module.")
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise BadInputError(f"the environment does not say {missing[0]}.", remedy="Start this module with torchrun.")
    folder, shards, out = (Path(argument).resolve() for argument in arguments[:3])
    out.mkdir(parents=True, exist_ok=True)
    config = loading.read_config(folder)
    count = int(arguments[3]) if len(arguments) == 4 else TOKENS
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], count)
    tasks = _tasks(folder, shards, out, tuple(int(token) for token in given.ids[0]))
    rank = int(os.environ["RANK"])
    run_rank(tasks[rank])
    return _judge(folder, given, tasks, out) if rank == 0 else ExitCode.OK


def _tasks(folder: Path, shards: Path, out: Path, ids: tuple[int, ...]) -> list[RankTask]:
    degrees = read_manifest(shards).degrees
    world = int(os.environ["WORLD_SIZE"])
    if world != degrees.world:
        raise BadInputError(
            f"torchrun started {world} ranks, the shards are of {degrees}.", remedy=f"Start {degrees.world} ranks."
        )
    return [
        RankTask(
            rank, degrees, str(folder), str(shards), ids, "float32", "env://", str(out / "logits.safetensors"),
            str(out / f"rank-{rank}.json"), RANK_TIMEOUT_S, prints=str(out / f"prints-{rank}.json"), token_block=BLOCK,
            collected=True,
        )
        for rank in range(world)
    ]  # fmt: skip


def _judge(folder: Path, given: loading.TokenInput, tasks: list[RankTask], out: Path) -> int:
    printed = tuple(load(RankPrints, Path(task.prints).read_bytes()) for task in tasks)
    ranks = tuple(load(RankObserved, Path(task.answer).read_bytes()) for task in tasks)
    answer = out / "alone.json"
    run_alone(folder, given.ids, Path(tasks[0].logits), cuts_of(printed), BLOCK, answer)
    found = observed_of(tasks[0].degrees, given, load(Alone, answer.read_bytes()), printed, ranks, OURS)
    (out / "parallel.json").write_bytes(dump(found))
    checks, _, culprits = parallel_checks(found, str(found.degrees))
    print(canonical_json({"schema": "dayzero.torchrun/1", "checks": checks, "culprits": culprits}).decode())
    verdicts = {check.verdict for check in checks}
    if Verdict.FAIL in verdicts:
        return ExitCode.VERDICT_FAIL
    return ExitCode.OK if verdicts == {Verdict.PASS} else ExitCode.NOT_MEASURED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
