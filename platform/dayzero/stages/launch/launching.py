"""From a plan to the launch of each engine, and to a neutral descriptor for engines that dayzero does not know."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.canonical import Json, plain
from dayzero.domain.launch import EngineLaunch, Launch, NodeCommand
from dayzero.domain.plan import Estimates, ParallelPlan
from dayzero.domain.planning import Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.bundle.escape import clean, shell_word
from dayzero.stages.launch.asked import MODEL_DIR, Asked, Pool, address
from dayzero.stages.launch.sglang import sglang_launch
from dayzero.stages.launch.torchrun import torchrun_launch
from dayzero.stages.launch.vllm import vllm_launch
from dayzero.stages.layout.partition import stage_layers
from dayzero.stages.planning.placement import RANK_ORDER, by_node, nested, placed, position_of, ranges

SCHEMA = "dayzero.launch/1"
ENGINES = {"vllm": vllm_launch, "sglang": sglang_launch, "torchrun": torchrun_launch}


def launch_of(spec: ModelSpec, plan: ParallelPlan, profile: PlatformProfile, workload: Workload) -> Launch:
    """The launch of the plan on every engine that dayzero knows."""
    return _launched(Asked(spec, plan, profile, workload))


def _launched(asked: Asked) -> Launch:
    return Launch(tuple(make(asked) for make in ENGINES.values()))


def launch_of_pools(spec: ModelSpec, plan: ParallelPlan, profile: PlatformProfile, workload: Workload) -> tuple[Launch, Launch]:
    """The launches of a plan's prefill pool and of its decode pool on every engine; each numbers its nodes from 0."""
    pool = plan.prefill
    assert pool is not None, "the plan has no prefill pool"
    together = replace(plan.choices, prefill_devices=0)
    decode = replace(plan, prefill=None, choices=together)
    degrees = replace(pool.degrees, dp=pool.degrees.dp * pool.instances)
    prefill = ParallelPlan(
        degrees=degrees,
        memory=(pool.memory,),
        stage_layers=stage_layers(len(spec.layers), degrees.pp),
        estimates=Estimates(),
        binds=None,
        ladder=(),
        choices=replace(together, chunk_tokens=pool.chunk_tokens),
        sequences=1,
    )
    first, second = (
        _launched(Asked(spec, one, profile, workload, Pool(role, pool.degrees, plan.degrees)))
        for role, one in (("prefill", prefill), ("decode", decode))
    )
    return first, second


def launch_script(launch: EngineLaunch) -> str:
    """The commands as one shell script a plan: the first argument is the number of the node that it runs on.

    Placeholders are variables of the environment, which the script asks for by name when they are missing.
    """
    if not launch.commands:
        reasons = "; ".join(launch.unsupported) or "it has no commands"
        return f"#!/usr/bin/env bash\necho {shell_word(f'{launch.engine} cannot run this plan: {reasons}.')} >&2\nexit 3\n"
    of_node: dict[int, list[NodeCommand]] = defaultdict(list)
    for command in launch.commands:
        of_node[command.node].append(command)
    lines = [
        "#!/usr/bin/env bash",
        f"# {clean(launch.engine)} {clean(launch.version)}: give it the number of this node, from 0.",
        *(f"# {clean(note)}." for note in launch.notes),
        "set -euo pipefail",
        *_needed(launch),
    ]
    lines.append('case "${1:?give the number of this node, from 0}" in')
    for node, commands in sorted(of_node.items()):
        lines.append(f"{node})")
        several = len(commands) > 1
        lines += [f"  {command_line(command)}{' &' if several else ''}" for command in commands]
        lines += ["  wait", "  ;;"] if several else ["  ;;"]
    last = max(of_node)
    lines += [f'*) echo "This plan has nodes 0 to {last}." >&2; exit 2 ;;', "esac", ""]
    return "\n".join(lines)


def _needed(launch: EngineLaunch) -> Iterator[str]:
    text = " ".join(word for command in launch.commands for word in (*command.words, *command.environment.values()))
    yield ': "${MODEL_DIR:?set it to the folder that holds the model}"'
    for node in sorted({command.node for command in launch.commands}):
        if address(node) in text:
            yield f': "${{ADDRESS_{node}:?set it to the network address of node {node}}}"'


def command_line(command: NodeCommand) -> str:
    """The command as one line of a POSIX shell, its environment before it."""
    given = [f"{name}={_quoted(value)}" for name, value in sorted(command.environment.items())]
    return " ".join([*given, *(_quoted(word) for word in command.words)])


def _quoted(word: str) -> str:
    """A shell word; the placeholders, and they alone, stay variables."""
    if MODEL_DIR in word or "${ADDRESS_" in word:
        return f'"{clean(word)}"'
    return shell_word(word)


def descriptor(
    spec: ModelSpec, plan: ParallelPlan, profile: PlatformProfile, workload: Workload, model: str, launch: Launch | None = None
) -> dict[str, Json]:
    """The neutral descriptor: nodes, domains, ranks, degrees, dtypes, experts and stages, with every engine's commands."""
    degrees, choices = plan.degrees, plan.choices
    made = launch or launch_of(spec, plan, profile, workload)
    return {
        "schema": SCHEMA,
        "model": model,
        "platform": profile.slug,
        "degrees": {
            **{name: getattr(degrees, name) for name in ("tp", "pp", "ep", "dp", "cp", "etp")},
            "attention_dp": degrees.attention_dp,
        },
        "dtype": spec.native_dtype,
        "cache_dtype": choices.cache_dtype,
        "chunk_tokens": choices.chunk_tokens,
        "page_tokens": choices.page_tokens,
        "prefill_devices": choices.prefill_devices,
        "context_tokens": workload.context_tokens,
        "concurrency": workload.concurrency
        if workload.rate_per_s is None or plan.sequences is None
        else plan.sequences * degrees.dp,
        "rank_order": list(RANK_ORDER),
        "stages": [{"stage": index, "layers": [first, last]} for index, (first, last) in enumerate(plan.stage_layers)],
        "experts": _experts(spec, plan, workload),
        "domains": [
            {
                "name": one.name,
                "devices": one.devices,
                "bandwidth_bytes_per_s": one.bandwidth_bytes_per_s.value if one.bandwidth_bytes_per_s else None,
            }
            for one in nested(profile)
        ],
        **_placed(plan, profile),
        "engines": plain(made.engines),
    }


def _experts(spec: ModelSpec, plan: ParallelPlan, workload: Workload) -> Json:
    counts = sorted({layer.experts for layer in spec.layers if layer.experts})
    if not counts:
        return None
    degrees = plan.degrees
    whole = degrees.ep > 1
    return {
        "routed": [*counts],
        "redundant": workload.redundant_experts,
        "placement": "linear" if whole else "every expert on every rank, cut by tp",
        "ranks": degrees.ep,
        "slices": degrees.etp if whole else degrees.tp,
        "per_rank": [-(-(count + workload.redundant_experts) // degrees.ep) for count in counts],
    }


def _placed(plan: ParallelPlan, profile: PlatformProfile) -> dict[str, Json]:
    """Nodes with their ranks, and ranks with their coordinates."""
    places = placed(plan, profile)
    nodes = by_node(places)
    ranks: list[Json] = []
    for at in places:
        where = position_of(at.rank, plan.degrees)
        ranks.append(
            {
                "rank": at.rank,
                "node": at.node,
                "device": nodes[at.node].index(at.rank),
                "domains": list(at.domains),
                "tp": where.tp,
                "cp": where.cp,
                "dp": where.dp,
                "pp": where.pp,
                "ep": where.ep,
            }
        )
    return {
        "nodes": [{"node": node, "ranks": ranges(held), "devices": len(held)} for node, held in nodes.items()],
        "ranks": ranks,
    }
