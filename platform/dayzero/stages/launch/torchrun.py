"""A plan as torchrun with our own script, generate.py of the bundle, which shards by the modelling library's rules."""

from collections.abc import Iterator

from dayzero.domain.launch import EngineLaunch, NodeCommand
from dayzero.stages.launch.asked import MODEL_DIR, Asked, address
from dayzero.stages.launch.seats import Seat, Seating, seats, visible
from dayzero.stages.planning.placement import Position

VERSION = "torch 2.13, transformers 5.24"
SOURCE = "torch 2.13.0 torch/distributed/run.py; transformers 5.24 DistributedConfig"
SCRIPT = "generate.py"
PORT = 29400


def torchrun_launch(asked: Asked) -> EngineLaunch:
    """The commands, or what the modelling library's sharding cannot express of the plan."""
    seating = seats(asked, _order)
    refused = tuple(_refusals(asked, seating))
    if refused:
        return EngineLaunch("torchrun", VERSION, SOURCE, unsupported=refused)
    return EngineLaunch(
        "torchrun",
        VERSION,
        SOURCE,
        tuple(_command(asked, seat) for seat in seating.seats),
        ("one sequence after the other, to see that it answers: no server, no batching, the library's own cache",),
    )


def _order(at: Position) -> tuple[int, ...]:
    return at.pp, at.tp


def _refusals(asked: Asked, seating: Seating) -> Iterator[str]:
    degrees = asked.plan.degrees
    if asked.workload.training is not None:
        yield "generate.py generates; this is a plan for training"
    if degrees.dp > 1:
        instead = f"start it {degrees.dp} times, or take" if asked.sharing == 1 else "take"
        yield f"generate.py has no data parallelism: {instead} an engine that serves"
    if degrees.tp > 1 and degrees.pp > 1:
        yield "the modelling library does not combine tensor with pipeline parallelism"
    if degrees.cp > 1:
        yield f"the modelling library generates without context parallelism: cp {degrees.cp} cannot be asked for"
    if degrees.etp > 1:
        yield f"the modelling library keeps experts whole: etp {degrees.etp} cannot be asked for"
    if asked.is_apart:
        yield "generate.py does prefill and decode in one place"
    if degrees.dp == 1 and not seating.even:
        yield "torchrun wants as many processes on every node"
    counts = asked.layer_counts
    if len(set(counts)) > 1 and counts != tuple(sorted(counts, reverse=True)):
        yield f"stages of {', '.join(str(count) for count in counts)} layers cannot be asked for: the library divides them"


def _command(asked: Asked, seat: Seat) -> NodeCommand:
    degrees = asked.plan.degrees
    words = ["torchrun"]
    if seat.parts == 1:
        words.append("--standalone")
    else:
        words += [
            "--nnodes",
            str(seat.parts),
            "--node-rank",
            str(seat.part),
            "--master-addr",
            address(seat.first_node),
            "--master-port",
            str(PORT),
        ]
    words += [
        "--nproc-per-node",
        str(len(seat.devices)),
        SCRIPT,
        "--model-dir",
        MODEL_DIR,
        "--dtype",
        asked.spec.native_dtype or "bfloat16",
        "--tp",
        str(degrees.tp),
        "--pp",
        str(degrees.pp),
        "--ep",
        str(degrees.ep),
    ]
    return NodeCommand(seat.node, "generate", seat.instance, seat.devices, tuple(words), visible(asked, seat), seat.part == 0)
