"""A plan as SGLang's own command, one a node.

Options and their meaning: sglang 0.5.23, sglang/srt/arg_groups/fields/*.py, arg_groups/parallel_hook.py (the chunk and the
running requests are divided by --attn-dp-size), sglang/srt/distributed/utils.py (SGLANG_PP_LAYER_PARTITION), choices.py.
"""

import math
from collections.abc import Iterator

from dayzero.domain.launch import EngineLaunch, NodeCommand
from dayzero.stages.launch.asked import MODEL_DIR, Asked, address, cache_refusal, common_refusals, redundant_refusals
from dayzero.stages.launch.figures import reserve_known, static_share
from dayzero.stages.launch.seats import FIRST_PORT, Seat, Seating, seats, sharing_notes, visible
from dayzero.stages.planning.placement import Position

VERSION = "0.5.23"
SOURCE = "PyPI sglang==0.5.23 sglang/srt/arg_groups/fields/*.py"
CACHE_DTYPES: dict[str | None, str] = {
    None: "auto",
    "bfloat16": "bfloat16",
    "fp8": "fp8_e4m3",
    "float8": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
DTYPES = ("bfloat16", "float16", "float32")
DEVICES = ("cuda", "xpu", "hpu", "npu", "cpu", "musa")
INIT_PORT, BOOTSTRAP_PORT = 20000, 8998


def sglang_launch(asked: Asked) -> EngineLaunch:
    """The commands, or what SGLang cannot express of the plan."""
    stated = asked.profile.engines.get("sglang")
    source = SOURCE if stated is None else f"{SOURCE}; {stated.source}"
    seating = seats(asked, _order)
    refused = tuple(_refusals(asked, seating))
    if refused:
        return EngineLaunch("sglang", VERSION, source, unsupported=refused)
    commands = tuple(_command(asked, seat) for seat in seating.seats)
    return EngineLaunch("sglang", VERSION, source, commands, (*_notes(asked), *sharing_notes(asked, seating)))


def _order(at: Position) -> tuple[int, ...]:
    """SGLang numbers ranks as the plan does: a stage holds all its replicas of attention."""
    return at.pp, at.dp, at.cp, at.tp


def _refusals(asked: Asked, seating: Seating) -> Iterator[str]:
    degrees = asked.plan.degrees
    if "sglang" not in asked.profile.engines:
        yield f"no source says that SGLang runs on {asked.profile.slug}"
    yield from common_refusals(asked, "SGLang")
    if degrees.cp > 1:
        yield (
            f"SGLang's context parallelism is for prefill and keeps the whole cache on each rank in decoding: cp {degrees.cp} "
            "with a shared cache cannot be asked for"
        )
    # Its expert ranks and slices together are the tensor-parallel world.
    if degrees.ep > 1 and degrees.ep * degrees.etp != degrees.tp * asked.sharing:
        yield f"SGLang spreads experts over {degrees.tp * asked.sharing} ranks, not over ep {degrees.ep} × etp {degrees.etp}"
    if not seating.even:
        yield f"SGLang wants as many devices on every node: {asked.instance_devices} over nodes of {asked.node_size} are uneven"
    yield from redundant_refusals(asked, "SGLang")
    yield from cache_refusal(asked, "SGLang", CACHE_DTYPES)


def _command(asked: Asked, seat: Seat) -> NodeCommand:
    role = asked.role_of(seat.instance)
    words = ["python", "-m", "sglang.launch_server", "--model-path", MODEL_DIR, *_shape(asked), *_spread(seat), *_sizes(asked)]
    words += _experts(asked)
    if asked.profile.torch_device in DEVICES[1:]:
        words += ["--device", asked.profile.torch_device or ""]
    head = seat.part == 0
    if head:
        words += ["--host", "0.0.0.0", "--port", str(seat.port)]
    if role != "serve":
        backend = "ascend" if asked.profile.vendor == "ascend" else "mooncake"
        words += ["--disaggregation-mode", role, "--disaggregation-transfer-backend", backend]
        if role == "prefill":
            words += ["--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT + seat.port - FIRST_PORT)]
    environment = visible(asked, seat)
    if asked.plan.degrees.pp > 1 and asked.layer_counts:
        environment["SGLANG_PP_LAYER_PARTITION"] = ",".join(str(count) for count in asked.layer_counts)
    return NodeCommand(seat.node, role, seat.instance, seat.devices, tuple(words), environment, head)


def _shape(asked: Asked) -> list[str]:
    degrees = asked.plan.degrees
    words = ["--tp-size", str(degrees.tp * asked.sharing)]
    if degrees.pp > 1:
        words += ["--pp-size", str(degrees.pp)]
    if asked.sharing > 1:
        words += ["--attn-dp-size", str(asked.sharing)]
    return words


def _spread(seat: Seat) -> list[str]:
    if seat.parts == 1:
        return []
    return [
        "--nnodes",
        str(seat.parts),
        "--node-rank",
        str(seat.part),
        "--dist-init-addr",
        f"{address(seat.first_node)}:{INIT_PORT}",
    ]


def _sizes(asked: Asked) -> list[str]:
    choices, workload = asked.plan.choices, asked.workload
    words = ["--context-length", str(workload.context_tokens), "--max-running-requests", str(asked.sequences * asked.sharing)]
    chunk = -1 if choices.chunk_tokens is None else choices.chunk_tokens * asked.sharing
    words += ["--chunked-prefill-size", str(chunk)]
    if asked.spec.native_dtype in DTYPES:
        words += ["--dtype", asked.spec.native_dtype]
    if choices.cache_dtype is not None:
        words += ["--kv-cache-dtype", CACHE_DTYPES[choices.cache_dtype]]
    if choices.page_tokens > 1:
        words += ["--page-size", str(choices.page_tokens)]
    share = static_share(asked.plan)
    if share is not None and reserve_known(asked.plan):
        words += ["--mem-fraction-static", f"{max(0.01, math.floor(share * 100) / 100):g}"]
    return words


def _experts(asked: Asked) -> list[str]:
    degrees, redundant = asked.plan.degrees, asked.workload.redundant_experts
    if degrees.ep == 1:
        return []
    words = ["--ep-size", str(degrees.ep)]
    if redundant:
        words += ["--ep-num-redundant-experts", str(redundant), "--enable-eplb"]
    return words


def _notes(asked: Asked) -> Iterator[str]:
    degrees, choices = asked.plan.degrees, asked.plan.choices
    if asked.sharing > 1:
        yield (
            f"--tp-size counts the {degrees.tp * asked.sharing} ranks of a stage; each replica of attention is cut over "
            f"{degrees.tp}; before 0.5.23 write --dp-size {asked.sharing} --enable-dp-attention for --attn-dp-size"
        )
        yield "SGLang divides the chunk and the running requests by the replicas of attention: both are given for all of them"
    if asked.instances > 1:
        yield f"{asked.instances} independent instances: a router in front of them shares the requests out"
    if asked.is_apart:
        yield "a router that sends each request to a prefill and then to a decode instance is needed in front"
    if degrees.ep > 1 and degrees.etp == 1 and asked.profile.vendor == "nvidia":
        yield "experts talk by all-reduce, SGLang's default; where DeepEP is installed, --moe-a2a-backend deepep does less"
    if not reserve_known(asked.plan):
        yield "what the runtime keeps for itself is not known: the share of memory for weights and cache is left to SGLang"
    if choices.sequence_parallel:
        yield "sequence parallelism has no general option here: SGLang decides it by model"
