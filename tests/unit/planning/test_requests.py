"""Requests by name, changed platforms, and plans with prefill on devices of its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.profiles.templates import choose_template, load_templates
from dayzero.domain.plan import ParallelPlan
from dayzero.domain.planning import Change, Objective, Optimizer, Workload
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.what_if import changed, read_change
from dayzero.stages.structure.reading import read_spec
from golden_models import models

PROFILES = load_profiles(None)


def spec(name: str):
    model = next(model for model in models() if model.name == name)
    return read_spec(model.config, None, side=model.side)


def test_every_shipped_template_plans_a_small_model() -> None:
    model = spec("meta-llama/Meta-Llama-3.1-8B")
    templates = load_templates(None)
    assert {"latency", "throughput", "long-context", "fine-tune", "smallest"} <= set(templates)
    for template in templates.values():
        report = plan_for(model, None, PROFILES["h200"], template.workload, devices=8, memory_limit_bytes=None)
        assert report.plan is not None, template.name
        assert report.plan.estimates.throughput_tokens_per_s is not None


def test_the_smallest_takes_one_device_and_long_context_the_most_room() -> None:
    model, templates = spec("meta-llama/Meta-Llama-3.1-8B"), load_templates(None)
    smallest = plan_for(model, None, PROFILES["h200"], templates["smallest"].workload, devices=64, memory_limit_bytes=None)
    assert smallest.plan is not None and smallest.plan.degrees.world == 1
    longest = plan_for(model, None, PROFILES["h200"], templates["long-context"].workload, devices=8, memory_limit_bytes=None)
    assert longest.plan is not None and longest.plan.degrees.world == 8
    assert longest.plan.choices.cache_dtype == "fp8"


def test_a_users_file_adds_and_replaces_templates(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[latency]\ncontext_tokens = 99\n[night]\ntitle = "At night"\n[night.training]\n'
                    'tokens_per_step = 8192\noptimizer = "sgd"\n')  # fmt: skip
    templates = load_templates(mine)
    assert templates["latency"].workload == Workload(context_tokens=99)
    night = choose_template(templates, "night")
    assert night.title == "At night"
    assert night.workload.training is not None and night.workload.training.optimizer is Optimizer.SGD
    assert "throughput" in templates


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\ncontxt = 1\n", "plan template a (mine.toml): 'contxt' is no field of a request"),
        ("[a]\ncontext_tokens = '1'\n", "context_tokens is '1'. Give a whole number"),
        ("[a]\nconcurrency = true\n", "concurrency is True"),
        ("[a]\nobjective = 'best'\n", "objective is 'best'. Give one of throughput"),
        ("[a]\ncache_dtypes = [1]\n", "cache_dtypes is [1]. Give a list of names"),
        ("[a.training]\nzero = 1\n", "a (mine.toml): training lacks a field"),
        ("[a.training]\ntokens_per_step = 1\nzerro = 1\n", "'zerro' is no field"),
        ("a = 1\n", "plan template a (mine.toml) is no table"),
        ("[a\n", "are not TOML"),
        ("[a]\ntitle = 3\n", "title is 3"),
    ],
)
def test_a_bad_template_is_named_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BadInputError) as refused:
        load_templates(tmp_path / "mine.toml")
    assert said in str(refused.value)


def test_missing_files_and_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        load_templates(tmp_path / "none.toml")
    with pytest.raises(NotFoundError, match=r"no plan template 'x'.*latency"):
        choose_template(load_templates(None), "x")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("memory=0.5x", Change("memory", factor=0.5)),
        ("links=2x", Change("links", factor=2.0)),
        ("nodes=-1", Change("nodes", more=-1)),
        ("devices=+3", Change("devices", more=3)),
        ("network=none", Change("network", absent=True)),
    ],
)
def test_changes_are_read(text: str, change: Change) -> None:
    assert read_change(text) == change


@pytest.mark.parametrize(
    "text", ["", "memory", "memory=none", "memory=0x", "colour=2x", "links=fast", "nodes=none", "links=-1", "links=1e99x"]
)
def test_changes_that_change_nothing_are_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"Give"):
        read_change(text)


def test_a_change_scales_its_figure_and_says_so() -> None:
    profile, devices, limit = changed(PROFILES["h200"], 16, 1000, [read_change(text) for text in (
        "memory=0.5x", "bandwidth=2x", "compute=3x", "links=4x", "network=0.1x", "nodes=-1")])  # fmt: skip
    before = PROFILES["h200"]
    assert devices == 8 and limit == 500
    assert profile.memory_bytes and before.memory_bytes and profile.memory_bytes.value == before.memory_bytes.value / 2
    assert profile.flops_per_s["float8"].value == 3 * before.flops_per_s["float8"].value
    link = profile.link_domains[0].bandwidth_bytes_per_s
    assert link is not None and link.value == 4 * 450e9 and link.source.startswith("what if: 4 times")
    assert profile.nic_bytes_per_s is not None and profile.nic_bytes_per_s.value == 5e9
    gone, _, _ = changed(before, 8, None, [read_change("network=none")])
    assert gone.nic_bytes_per_s is None


def test_nodes_need_a_size_and_something_must_be_left() -> None:
    with pytest.raises(BadInputError, match="how many devices a node of ascend-950pr has"):
        changed(PROFILES["ascend-950pr"], 8, None, [read_change("nodes=-1")])
    with pytest.raises(BadInputError, match="would leave 0 of 8"):
        changed(PROFILES["h200"], 8, None, [read_change("nodes=-1")])


def test_half_the_memory_of_a_full_plan_has_a_nearest_miss() -> None:
    model = spec("meta-llama/Meta-Llama-3.1-70B")
    workload = Workload(context_tokens=4096, concurrency=8, objective=Objective.THROUGHPUT)
    profile, devices, limit = changed(PROFILES["h200"], 2, None, [read_change("memory=0.4x")])
    whole = plan_for(model, None, PROFILES["h200"], workload, devices=2, memory_limit_bytes=None)
    half = plan_for(model, None, profile, workload, devices=devices, memory_limit_bytes=limit)
    assert whole.plan is not None and half.plan is None and half.nearest is not None
    assert any(remedy.enough for remedy in half.nearest.remedies)


def test_a_target_that_nobody_meets_names_a_plan_that_has_room() -> None:
    model = spec("meta-llama/Meta-Llama-3.1-405B")
    workload = Workload(context_tokens=4096, concurrency=8, tpot_s=1e-5, objective=Objective.THROUGHPUT)
    report = plan_for(model, None, PROFILES["h200"], workload, devices=16, memory_limit_bytes=None)
    assert report.plan is None and report.nearest is not None
    assert (report.nearest.item, report.nearest.short_bytes) == ("tpot", 0)
    limit = report.nearest.budget.limit_bytes
    assert limit is not None and report.nearest.budget.total_bytes <= limit


def test_pools_apart_fill_no_more_than_the_devices_and_keep_up_with_each_other() -> None:
    workload = Workload(context_tokens=5000, output_tokens=1000, concurrency=256, objective=Objective.THROUGHPUT)
    report = plan_for(
        spec("meta-llama/Meta-Llama-3.1-70B"), None, PROFILES["h200"], workload, devices=16, memory_limit_bytes=None
    )
    apart = report.apart
    assert apart is not None and apart.prefill is not None and apart.estimates.throughput_tokens_per_s is not None
    assert apart.choices.prefill_devices == apart.prefill.devices
    assert apart.degrees.world + apart.prefill.devices <= 16
    assert apart.prefill.requests_per_s >= apart.estimates.throughput_tokens_per_s.mid / 1000
    assert all(
        budget.limit_bytes and budget.total_bytes <= budget.limit_bytes for budget in (*apart.memory, apart.prefill.memory)
    )
    assert apart.estimates.ttft_s is not None
    parts = sum(term.seconds for term in apart.estimates.terms if term.phase == "prefill")
    assert parts == pytest.approx(apart.estimates.ttft_s.mid)


@pytest.mark.parametrize("ttft", [None, 0.6])
def test_pools_apart_that_keep_up_with_a_rate_are_as_small_as_they_can_be(ttft: float | None) -> None:
    def pools(rate: float, devices: int = 64) -> ParallelPlan | None:
        workload = Workload(5000, output_tokens=1000, rate_per_s=rate, ttft_s=ttft, objective=Objective.THROUGHPUT)
        model = spec("meta-llama/Meta-Llama-3.1-70B")
        return plan_for(model, None, PROFILES["h200"], workload, devices=devices, memory_limit_bytes=None).apart

    few, many = pools(2.0), pools(12.0)
    assert few is not None and few.prefill is not None and many is not None and many.prefill is not None
    taken, more = (one.degrees.world + one.prefill.devices for one in (few, many) if one.prefill is not None)
    assert taken < more <= 64
    for rate, apart in ((2.0, few), (12.0, many)):
        assert apart.prefill is not None and apart.prefill.requests_per_s > rate
        assert apart.estimates.throughput_tokens_per_s is not None and apart.estimates.ttft_s is not None
        assert apart.estimates.throughput_tokens_per_s.mid == pytest.approx(rate * 1000)
        assert apart.sequences is not None and apart.sequences * apart.degrees.dp > rate
        assert ttft is None or apart.estimates.ttft_s.mid <= ttft
        assert all(one.limit_bytes and one.total_bytes <= one.limit_bytes for one in apart.memory)
    # One device fewer than they take, and no pair keeps up.
    assert pools(2.0, devices=taken - 1) is None
    assert pools(5000.0) is None


def test_pools_apart_need_two_devices_and_a_link() -> None:
    workload = Workload(context_tokens=5000, concurrency=16, objective=Objective.THROUGHPUT)
    model = spec("meta-llama/Meta-Llama-3.1-8B")
    assert plan_for(model, None, PROFILES["h200"], workload, devices=1, memory_limit_bytes=None).apart is None
    alone = replace(PROFILES["h200"], link_domains=(), nic_bytes_per_s=None)
    assert plan_for(model, None, alone, workload, devices=4, memory_limit_bytes=None).apart is None
