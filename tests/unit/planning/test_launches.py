"""Launches: every option is one that the engine has, what an engine cannot express is said, scripts are safe and complete."""

import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.launch import EngineLaunch
from dayzero.domain.plan import MemoryBudget, PrefillPool
from dayzero.domain.planning import Choices, Degrees, Training, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.bundle.generate import GENERATE_SCRIPT
from dayzero.stages.launch.asked import Asked
from dayzero.stages.launch.launching import command_line, descriptor, launch_of, launch_of_pools, launch_script
from dayzero.stages.launch.seats import seats
from dayzero.stages.planning.placement import place, position_of
from plans import DENSE, EXPERTS, GB, LINEAR, USUAL, cluster, made_plan, shipped, structure

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "engine_options.json").read_text())
SERVING = Workload(context_tokens=8192, concurrency=64)


def launches(
    model: str,
    degrees: Degrees,
    profile: PlatformProfile | None = None,
    workload: Workload = SERVING,
    *,
    limit: int | None = 80 * GB,
    choices: Choices = USUAL,
    reserve: int = 0,
) -> dict[str, EngineLaunch]:
    spec = structure(model)
    plan = made_plan(degrees, spec, limit=limit, choices=choices, reserve=reserve)
    return {one.engine: one for one in launch_of(spec, plan, profile or shipped("h200"), workload).engines}


def value(words: tuple[str, ...], option: str) -> str | None:
    return words[words.index(option) + 1] if option in words else None


def held_against_golden(launch: EngineLaunch) -> None:
    known = GOLDEN[launch.engine]
    for command in launch.commands:
        ends = command.words.index("generate.py") if "generate.py" in command.words else len(command.words)
        for word in command.words[:ends]:
            assert not word.startswith("--") or word in known["options"], f"{launch.engine} {known['version']} has no {word}"
        for word in command.words[ends:]:
            assert not word.startswith("--") or f'"{word}"' in GENERATE_SCRIPT
        for option, choices in known["choices"].items():
            given_value = value(command.words, option)
            assert given_value is None or given_value in choices
        ours = [name for name in command.environment if name.startswith(("VLLM_", "SGLANG_"))]
        assert set(ours) <= set(known["environment"])


CASES = [
    (DENSE, Degrees(tp=2, pp=2), {}),
    (EXPERTS, Degrees(tp=8, ep=16, dp=2), {}),
    (EXPERTS, Degrees(tp=8, pp=2, ep=16, dp=4), {}),
    (EXPERTS, Degrees(tp=4, ep=32, dp=8), {"choices": Choices("fp8", 2048, 64)}),
    (LINEAR, Degrees(tp=4, pp=2, ep=32, dp=8), {"reserve": GB}),
    (DENSE, Degrees(tp=16), {}),
    (DENSE, Degrees(tp=2, dp=8), {"choices": Choices(prefill_devices=4)}),
    (DENSE, Degrees(tp=4, cp=2), {}),
    (DENSE, Degrees(pp=3), {}),
]


@pytest.mark.parametrize(("model", "degrees", "made"), CASES)
@pytest.mark.parametrize("slug", ["h200", "mi300x", "cloudmatrix-384", "ascend-910b-376t"])
def test_every_option_is_one_of_the_engine(model: str, degrees: Degrees, made: dict, slug: str) -> None:
    found = launches(model, degrees, shipped(slug), **made)
    for launch in found.values():
        assert bool(launch.commands) != bool(launch.unsupported), "commands, or why there are none"
        assert launch.version and launch.source
        held_against_golden(launch)
        # Every device of the plan is taken once.
        taken = [(command.node, device) for command in launch.commands for device in command.devices]
        assert not taken or (len(taken) == len(set(taken)) == degrees.world)


def test_our_versions_are_those_of_the_golden_list() -> None:
    found = launches(DENSE, Degrees(tp=2))
    assert found["vllm"].version == GOLDEN["vllm"]["version"] and found["sglang"].version == GOLDEN["sglang"]["version"]


def test_deepseek_on_two_nodes_of_eight() -> None:
    found = launches(EXPERTS, Degrees(tp=8, ep=16, dp=2))
    head, other = found["vllm"].commands
    assert (head.node, head.head, other.node, other.head) == (0, True, 1, False)
    assert value(head.words, "--tensor-parallel-size") == "8" and value(head.words, "--data-parallel-size") == "2"
    assert value(head.words, "--data-parallel-size-local") == "1" and "--data-parallel-start-rank" not in head.words
    assert value(other.words, "--data-parallel-start-rank") == "1" and "--headless" in other.words
    assert value(other.words, "--data-parallel-address") == "${ADDRESS_0}"
    assert "--enable-expert-parallel" in head.words and value(head.words, "--max-num-seqs") == "32"
    first, second = found["sglang"].commands
    # SGLang's tensor-parallel size is the whole stage.
    assert value(first.words, "--tp-size") == "16" and value(first.words, "--attn-dp-size") == "2"
    assert value(first.words, "--ep-size") == "16" and value(first.words, "--max-running-requests") == "64"
    assert value(second.words, "--node-rank") == "1" and value(second.words, "--dist-init-addr") == "${ADDRESS_0}:20000"


def test_a_replica_over_two_nodes() -> None:
    head, other = launches(DENSE, Degrees(tp=16))["vllm"].commands
    assert value(head.words, "--nnodes") == "2" and value(other.words, "--node-rank") == "1"
    assert value(other.words, "--master-addr") == "${ADDRESS_0}" and "--headless" in other.words


def test_replicas_of_the_whole_are_independent_instances() -> None:
    launch = launches(DENSE, Degrees(tp=2, dp=4), cluster(8, ("node", 8)))["vllm"]
    assert [value(command.words, "--port") for command in launch.commands] == ["8000", "8001", "8002", "8003"]
    assert [command.environment["CUDA_VISIBLE_DEVICES"] for command in launch.commands] == ["0,1", "2,3", "4,5", "6,7"]
    assert all("--data-parallel-size" not in command.words for command in launch.commands)
    assert any("load balancer" in note for note in launch.notes)
    ascend = launches(DENSE, Degrees(tp=2, dp=2), shipped("ascend-910b-376t"))["vllm"]
    assert [command.environment["ASCEND_RT_VISIBLE_DEVICES"] for command in ascend.commands] == ["0,1", "2,3"]


def test_instances_run_where_the_plan_has_their_ranks() -> None:
    # Stages lie outside of replicas: each replica has its first stage on one of the first nodes, its second on one of the last.
    launch = launches(DENSE, Degrees(tp=8, pp=2, dp=2))["vllm"]
    assert [(command.instance, command.node) for command in launch.commands] == [(0, 0), (0, 2), (1, 1), (1, 3)]
    assert [value(command.words, "--node-rank") for command in launch.commands] == ["0", "1", "0", "1"]
    assert value(launch.commands[3].words, "--master-addr") == "${ADDRESS_1}"
    small = launches(DENSE, Degrees(tp=2, pp=2, dp=2))["vllm"]
    assert [command.devices for command in small.commands] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert not any("sit on other nodes" in note for one in (launch, small) for note in one.notes)


def test_replicas_that_share_experts_and_have_stages_sit_otherwise_in_vllm_and_it_says_so() -> None:
    found = launches(EXPERTS, Degrees(tp=4, pp=2, ep=8, dp=2), reserve=GB)
    assert any("ranks that share experts lie on 2 nodes, not on 1" in note for note in found["vllm"].notes)
    assert [command.devices for command in found["sglang"].commands] == [tuple(range(8))] * 2
    # SGLang numbers ranks as the plan does, so its stages are where the plan has them.
    assert [value(command.words, "--node-rank") for command in found["sglang"].commands] == ["0", "1"]


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(1, 3), st.sampled_from([4, 8]))
def test_seats_as_placed_are_the_placement(tp: int, pp: int, dp: int, node: int) -> None:
    degrees, spec = Degrees(tp, pp, 1, dp), structure(DENSE)
    profile = cluster(node, ("node", node))
    asked = Asked(spec, made_plan(degrees, spec), profile, SERVING)
    seating = seats(asked, lambda at: (at.dp, at.pp, at.cp, at.tp))
    places = place(degrees, profile)
    if seating.as_placed:
        for instance in range(dp):
            ranks = [rank for rank in range(degrees.world) if position_of(rank, degrees).dp == instance]
            nodes = {seat.node for seat in seating.seats if seat.instance == instance}
            assert nodes == {places[rank].node for rank in ranks}
    assert sum(len(seat.devices) for seat in seating.seats) == degrees.world


def test_instances_on_a_node_that_nothing_is_known_to_keep_apart() -> None:
    found = launches(DENSE, Degrees(tp=2, dp=2), cluster(8, ("node", 8), vendor="metax"))
    for engine in ("vllm", "sglang"):
        assert all(not command.environment for command in found[engine].commands)
        assert any("keep each instance to the devices" in note for note in found[engine].notes)
    alone = launches(DENSE, Degrees(tp=8, dp=2), cluster(8, ("node", 8), vendor="metax"))["vllm"]
    assert not any("keep each instance" in note for note in alone.notes)


def test_a_platform_whose_nodes_vllm_joins_by_ray_has_no_command_a_node() -> None:
    found = launches(DENSE, Degrees(tp=16), cluster(8, ("node", 8), vendor="google"))["vllm"]
    assert not found.commands and "by Ray alone" in found.unsupported[0]
    assert launches(DENSE, Degrees(tp=8), cluster(8, ("node", 8), vendor="google"))["vllm"].commands


def test_experts_cut_by_tp_are_not_spread_over_replicas() -> None:
    # vLLM would cut experts over tp × dp: replicas with experts of their own are instances of their own.
    launch = launches(EXPERTS, Degrees(tp=8, dp=2))["vllm"]
    assert len(launch.commands) == 2 and all("--data-parallel-size" not in command.words for command in launch.commands)


def test_uneven_stages_are_asked_for_by_name() -> None:
    found = launches(DENSE, Degrees(pp=3))
    assert found["vllm"].commands[0].environment["VLLM_PP_LAYER_PARTITION"] == "27,27,26"
    assert found["sglang"].commands[0].environment["SGLANG_PP_LAYER_PARTITION"] == "27,27,26"


def test_context_parallelism_shares_the_cache_where_the_engine_can() -> None:
    found = launches(DENSE, Degrees(tp=4, cp=2))
    (command,) = found["vllm"].commands
    assert (
        value(command.words, "--prefill-context-parallel-size") == value(command.words, "--decode-context-parallel-size") == "2"
    )
    assert "keeps the whole cache on each rank" in found["sglang"].unsupported[0]
    experts = launches(EXPERTS, Degrees(tp=4, cp=2))["vllm"]
    assert not experts.commands and "over tp × cp × dp ranks together" in experts.unsupported[0]


def test_redundant_experts() -> None:
    workload = replace(SERVING, redundant_experts=32)
    found = launches(EXPERTS, Degrees(tp=8, ep=16, dp=2), workload=workload)
    assert json.loads(value(found["vllm"].commands[0].words, "--eplb-config") or "") == {"num_redundant_experts": 32}
    assert value(found["sglang"].commands[0].words, "--ep-num-redundant-experts") == "32"
    ascend = launches(EXPERTS, Degrees(tp=8, ep=16, dp=2), shipped("ascend-910b-376t"), workload)["vllm"]
    config = json.loads(value(ascend.commands[0].words, "--additional-config") or "")
    assert config["eplb_config"] == {"dynamic_eplb": True, "num_redundant_experts": 32}
    uneven = launches(EXPERTS, Degrees(tp=8, ep=16, dp=2), workload=replace(SERVING, redundant_experts=3))
    assert "256 + 3 do not divide by ep 16" in uneven["vllm"].unsupported[0]


@pytest.mark.parametrize(
    ("degrees", "choices", "workload", "reasons"),
    [
        (Degrees(tp=4, ep=2, etp=4, dp=2), Choices(), SERVING, {"vllm": "keeps experts whole", "sglang": None}),
        (Degrees(tp=4, ep=2), Choices(), SERVING, {"vllm": "over all 4 ranks", "sglang": "over 4 ranks"}),
        (Degrees(tp=2), Choices(cache_dtype="int8"), SERVING, {"vllm": "has no int8 cache", "sglang": "has no int8 cache"}),
        (Degrees(tp=2), Choices(compressed=True), SERVING, {"vllm": "one byte an element", "sglang": "one byte an element"}),
        (Degrees(pp=2), Choices(virtual_stages=2), SERVING, {"vllm": "no interleaved pipeline", "torchrun": None}),
        (
            Degrees(tp=2),
            Choices(),
            Workload(training=Training(1 << 20)),
            {"vllm": "training", "sglang": "training", "torchrun": "training"},
        ),
        (Degrees(tp=2, dp=4), Choices(prefill_devices=3), SERVING, {"vllm": "no whole number of instances"}),
        (Degrees(tp=2, pp=2), Choices(), SERVING, {"torchrun": "does not combine tensor with pipeline"}),
        (Degrees(dp=2), Choices(), SERVING, {"torchrun": "start it 2 times"}),
    ],
)
def test_what_an_engine_cannot_express_is_said(
    degrees: Degrees, choices: Choices, workload: Workload, reasons: dict[str, str | None]
) -> None:
    found = launches(EXPERTS if degrees.ep > 1 else DENSE, degrees, workload=workload, choices=choices)
    for engine, reason in reasons.items():
        if reason is None:
            assert found[engine].commands
        else:
            assert not found[engine].commands and any(reason in said for said in found[engine].unsupported)


def test_a_platform_that_no_source_names_has_no_command() -> None:
    found = launches(DENSE, Degrees(tp=2), cluster(8, engines=False))
    assert found["vllm"].unsupported == ("no source says that vLLM runs on made",)
    assert found["sglang"].unsupported == ("no source says that SGLang runs on made",)
    assert found["torchrun"].commands


def test_disaggregation_names_both_roles() -> None:
    found = launches(DENSE, Degrees(tp=2, dp=4), choices=Choices(prefill_devices=2))
    assert [command.role for command in found["vllm"].commands] == ["prefill", "decode", "decode", "decode"]
    for command in found["vllm"].commands:
        config = json.loads(value(command.words, "--kv-transfer-config") or "")
        assert config["kv_connector"] in GOLDEN["vllm"]["connectors"] and config["kv_role"] in GOLDEN["vllm"]["roles"]
    assert [value(command.words, "--disaggregation-mode") for command in found["sglang"].commands] == [
        "prefill",
        *["decode"] * 3,
    ]


def test_each_pool_of_a_plan_with_prefill_apart_has_its_own_launch() -> None:
    spec, limit = structure(DENSE), MemoryBudget(0, {"weights": 60 * GB}, 80 * GB)
    pool = PrefillPool(Degrees(tp=4), 2, 2048, 3.5, 0.01, limit)
    plan = replace(made_plan(Degrees(tp=2, dp=3), spec), prefill=pool, sequences=17)
    prefill, decode = launch_of_pools(spec, plan, shipped("h200"), replace(SERVING, rate_per_s=2.0))
    for launch, role, tp, count, most in ((prefill, "prefill", "4", 2, "1"), (decode, "decode", "2", 3, "17")):
        by_name = {one.engine: one for one in launch.engines}
        for engine, option, running in (("vllm", "--tensor-parallel-size", "--max-num-seqs"),
                                        ("sglang", "--tp-size", "--max-running-requests")):  # fmt: skip
            held_against_golden(by_name[engine])
            assert [command.role for command in by_name[engine].commands] == [role] * count
            assert {value(command.words, option) for command in by_name[engine].commands} == {tp}
            assert {value(command.words, running) for command in by_name[engine].commands} == {most}
        assert "one place" in by_name["torchrun"].unsupported[-1]
    ascend, _ = launch_of_pools(spec, plan, shipped("ascend-910b-376t"), SERVING)
    config = json.loads(value(ascend.engines[0].commands[0].words, "--kv-transfer-config") or "")
    assert config["kv_connector_extra_config"] == {
        "prefill": {"dp_size": 1, "tp_size": 4},
        "decode": {"dp_size": 1, "tp_size": 2},
    }


def test_a_rate_s_plan_is_started_for_the_sequences_that_its_memory_holds() -> None:
    spec, rate = structure(DENSE), replace(SERVING, concurrency=1, rate_per_s=4.0)
    plan = replace(made_plan(Degrees(tp=2, dp=2), spec), sequences=23)
    for engine in launch_of(spec, plan, shipped("h200"), rate).engines[:2]:
        words = engine.commands[0].words
        assert "23" in (value(words, "--max-num-seqs"), value(words, "--max-running-requests"))
    assert descriptor(spec, plan, shipped("h200"), rate, "a-model")["concurrency"] == 46


def test_memory_shares_follow_the_plan() -> None:
    assert "--gpu-memory-utilization" not in launches(DENSE, Degrees(tp=2))["vllm"].commands[0].words
    full = launches(DENSE, Degrees(tp=2), limit=63 * GB, reserve=GB)
    assert value(full["vllm"].commands[0].words, "--gpu-memory-utilization") == "0.97"
    # 3 GB of 63 are for steps and the runtime.
    assert value(full["sglang"].commands[0].words, "--mem-fraction-static") == "0.95"
    assert "--mem-fraction-static" not in launches(DENSE, Degrees(tp=2))["sglang"].commands[0].words


@given(
    st.sampled_from([DENSE, EXPERTS]),
    st.sampled_from([1, 2, 3, 4, 8, 16]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([1, 2, 8, 16]),
    st.booleans(),
)
def test_commands_take_every_device_of_the_plan_once(
    model: str, tp: int, pp: int, sharing: int, replicas: int, node: int, experts: bool
) -> None:
    ep = tp * sharing if experts and model == EXPERTS and tp * sharing > 1 else 1
    degrees = Degrees(tp, pp, ep, sharing * replicas)
    for launch in launches(model, degrees, cluster(node, ("node", node))).values():
        taken = [(command.node, device) for command in launch.commands for device in command.devices]
        assert len(taken) == len(set(taken)) == (degrees.world if launch.commands else 0)
        assert all(device < node for _, device in taken)
        held_against_golden(launch)
        ports = [(command.node, value(command.words, "--port")) for command in launch.commands if "--port" in command.words]
        assert len(ports) == len(set(ports))


def test_scripts_are_shell_and_ask_for_what_they_need(tmp_path: Path) -> None:
    found = launches(EXPERTS, Degrees(tp=8, ep=16, dp=2), workload=replace(SERVING, redundant_experts=16))
    for launch in found.values():
        script = tmp_path / f"{launch.engine}.sh"
        script.write_text(launch_script(launch))
        subprocess.run(["bash", "-n", str(script)], check=True)
        ran = subprocess.run(
            ["bash", str(script), "1"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False
        )
        assert ran.returncode != 0
        assert ("set it to the folder that holds the model" if launch.commands else "cannot run this plan") in ran.stderr
    given_names = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MODEL_DIR": "/models/a b; rm -rf x", "ADDRESS_0": "10.0.0.1"}
    (tmp_path / "vllm").write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    (tmp_path / "vllm").chmod(0o755)
    ran = subprocess.run(["bash", str(tmp_path / "vllm.sh"), "1"], capture_output=True, text=True, env=given_names, check=True)
    assert ran.stdout.splitlines()[:2] == ["serve", "/models/a b; rm -rf x"] and "10.0.0.1" in ran.stdout
    ran = subprocess.run(["bash", str(tmp_path / "vllm.sh"), "7"], capture_output=True, text=True, env=given_names, check=False)
    assert ran.returncode == 2 and "nodes 0 to 1" in ran.stderr


def test_only_placeholders_stay_variables() -> None:
    for launch in launches(EXPERTS, Degrees(tp=8, pp=2, ep=16, dp=2)).values():
        for command in launch.commands:
            assert set(re.findall(r"\$\{?[A-Za-z_0-9]+\}?", " ".join(command.words))) <= {"${MODEL_DIR}", "${ADDRESS_0}"}
            assert shlex.split(command_line(command))


def test_the_neutral_descriptor() -> None:
    spec, degrees = structure(EXPERTS), Degrees(tp=8, ep=16, dp=2)
    document = descriptor(spec, made_plan(degrees, spec), shipped("h200"), SERVING, "DeepSeek-V3")
    assert document["schema"] == "dayzero.launch/1" and document["rank_order"] == ["tp", "cp", "dp", "pp"]
    assert [node["ranks"] for node in document["nodes"]] == ["0-7", "8-15"]
    assert document["ranks"][9] == {
        "rank": 9,
        "node": 1,
        "device": 1,
        "domains": [1],
        "tp": 1,
        "cp": 0,
        "dp": 1,
        "pp": 0,
        "ep": 9,
    }
    assert document["experts"] == {
        "routed": [256],
        "redundant": 0,
        "placement": "linear",
        "ranks": 16,
        "slices": 1,
        "per_rank": [16],
    }
    assert document["stages"] == [{"stage": 0, "layers": [0, 61]}]
    json.dumps(document)
