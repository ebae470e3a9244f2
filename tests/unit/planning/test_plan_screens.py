"""The screen: what was chosen and why, in about 50 lines of 100 columns; bars add up; the JSON only grows."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dayzero.cli import screen
from dayzero.cli.screen import print_screen
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.plan import (
    Estimates,
    Interval,
    MemoryBudget,
    NearestMiss,
    PrefillPool,
    RejectedFamily,
    Rejection,
    Remedy,
    Term,
)
from dayzero.domain.planning import Change, Choices, Degrees, Training, Workload
from dayzero.stages.explaining.memory import bar_cells, gigabytes, rank_groups, telling_groups
from dayzero.stages.explaining.words import seconds, trade_words
from dayzero.stages.launch.launching import launch_of
from dayzero.steps.explaining import Explained
from dayzero.steps.plan_document import plan_document
from plans import DENSE, EXPERTS, GB, made_plan, made_report, shipped, structure

FAMILIES = (
    RejectedFamily("kv heads", 40, Rejection(Degrees(tp=16), "kv heads", "8 key-value heads do not divide by tp 16", {})),
    RejectedFamily(
        "memory",
        7,
        Rejection(
            Degrees(tp=2),
            "memory",
            "short",
            {"limit_bytes": 80 * GB, "short_bytes": 3 * GB, "weights_bytes": 70 * GB, "state_bytes": 13 * GB},
        ),
    ),
)


def explained(report, model: str = EXPERTS, slug: str = "h200") -> Explained:
    spec, profile = structure(model), shipped(slug)
    launch = launch_of(spec, report.plan, profile, report.workload) if report.plan else None
    return Explained(report, spec, profile, "a-model", launch, 0.25)


def shown(found: Explained, capsys) -> str:
    print_screen(found.screen())
    return capsys.readouterr().out


def test_one_screen(capsys) -> None:
    spec = structure(EXPERTS)
    plan = made_plan(Degrees(tp=8, pp=2, ep=16, dp=2), spec, choices=Choices("fp8", 8192, 64))
    others = tuple(made_plan(degrees, spec) for degrees in (Degrees(tp=16), Degrees(tp=8, pp=4), Degrees(tp=8, pp=2)))
    report = made_report(plan, Workload(context_tokens=8192, concurrency=64, ttft_s=0.5), families=FAMILIES)
    text = shown(explained(replace(report, alternatives=others)), capsys)
    lines = text.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 100
    for said in (
        "a-model on h200: tp8-pp2-ep16-dp2 on 32 devices of 4 nodes",
        "each layer is cut over 8 devices (tp); 2 stages of 31 or 30 layers (pp)",
        "16 of 256 on each, shared by 2 replicas",
        "8,192 tokens of prompt a step; cache in fp8, pages of 64 tokens",
        "60.0 GB of 80.0 GB (75%); ranks 0-15",
        "W weights 50.0 GB",
        "what binds: memory bandwidth",
        "TTFT = attention 300 ms (compute) + all-reduce 60.0 ms (node, 40.0 ms more hidden)",
        "25% measured",
        "≤ 500 ms",
        "node 0: ranks 0-7, stage 0, replica 0, expert ranks 0-7, 1 tp group",
        "tp: 4 groups of 8 talk over node NVLink/NVSwitch (8 devices, 450 GB/s)",
        "ep: 2 groups of 16 talk over the network between 2 nodes (50 GB/s a device)",
        "8 key-value heads do not divide by tp 16",
        "needs 83.0 GB of 80.0 GB, 70.0 GB of it weights: short by 3.00 GB",
        "throughput ×2",
        "4 commands: --launch vllm",
    ):
        assert " ".join(said.split()) in " ".join(text.replace("\u00a0", " ").split()), said


def test_a_narrow_terminal_keeps_a_bar_and_its_figures_on_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setattr(screen, "WIDTH", 80)
    spec = structure(EXPERTS)
    lines = shown(explained(made_report(made_plan(Degrees(tp=8, pp=2, ep=16, dp=2), spec))), capsys).splitlines()
    (fullest,) = [line for line in lines if line.strip().startswith("fullest") and "GB" in line]
    assert max(map(len, lines)) <= 80 and "60.0 GB of 80.0 GB (75%); ranks 0-15" in fullest and fullest.count("W") >= 8


def test_when_nothing_fits_the_nearest_miss_and_its_remedies(capsys) -> None:
    budget = MemoryBudget(3, {"weights": 90 * GB, "state": 10 * GB}, 80 * GB)
    nearest = NearestMiss(
        Degrees(tp=8),
        Choices(),
        budget,
        20 * GB,
        "weights",
        (Remedy("16 devices instead of 8", 45 * GB, None, True), Remedy("fp8 cache", 5 * GB, None, False)),
    )
    found = explained(made_report(None, families=FAMILIES, nearest=nearest))
    text = shown(found, capsys)
    assert "a-model on h200: no plan fits" in text and "┃" in text
    assert "tp8 comes nearest: short by 20.0 GB a device, the largest item is weights" in text
    rows = [line.split() for line in text.splitlines() if "16 devices" in line or "fp8 cache" in line]
    assert [row[-1] for row in rows] == ["yes", "no"]
    assert "short by 20.0 GB" in found.picture()
    document = plan_document(found)
    assert document["plan"] is None and document["launch"] is None
    assert document["nearest"]["short_bytes"] == 20 * GB and document["nearest"]["remedies"][0]["enough"] is True


def test_a_training_plan_says_how_a_step_goes(capsys) -> None:
    choices = Choices(micro_batch=2, virtual_stages=2, sequence_parallel=True)
    estimates = Estimates(step_s=Interval(1.0, 2.0, 3.0), terms=(Term("train", "optimizer", "memory", 0.5),))
    plan = replace(made_plan(Degrees(tp=2, pp=2, dp=2), structure(DENSE), choices=choices), estimates=estimates)
    text = shown(explained(made_report(plan, Workload(training=Training(1 << 20))), DENSE), capsys)
    assert "2 sequences a micro-batch; 2 interleaved pieces a stage; norms and residuals cut by tp" in text
    assert "training: 1,048,576 tokens a step, sequences of 4,096, adamw, ZeRO 1" in text
    assert "step = optimizer 500 ms (memory bandwidth)" in text and "dp: 4 groups of 2 talk over" in text
    assert "vLLM serves; this is a plan for training" in text


def test_notes_keep_reasons_that_are_their_point(capsys) -> None:
    notes = (
        Finding("plan.assumed.reserve", "reserve", "reserve: nothing (nobody measured it on x)", Severity.NOTE),
        Finding(
            "plan.assumed.a", "a", "expert_buffers: an even share of the tokens times 1.25 (routing decides)", Severity.NOTE
        ),
    )
    text = shown(explained(made_report(made_plan(Degrees(), structure(DENSE)), findings=notes), DENSE), capsys)
    assert "reserve: nothing (nobody measured it on x)" in text and "routing decides" not in text


def test_the_front_is_told_by_its_ends(capsys) -> None:
    plan = made_plan(Degrees(tp=8), structure(DENSE))
    faster = replace(made_plan(Degrees(tp=16), structure(DENSE)),
                     estimates=replace(plan.estimates, tpot_s=Interval(0.004, 0.005, 0.006)))  # fmt: skip
    text = shown(explained(made_report(plan, pareto=(plan, faster)), DENSE), capsys)
    said = " ".join(text.split())
    assert "of 2 plans that none beats in both, tp16 (5.00 ms a token, 75.0 tokens/s each) is the fastest for one user" in said
    assert "tp8 (20.0 ms a token, 150 tokens/s each) gives most" in said
    assert "none beats" not in shown(explained(made_report(plan, pareto=(plan,)), DENSE), capsys)


def test_pools_apart_are_told_with_their_ratio_and_against_the_chosen_plan(capsys) -> None:
    plan, decode = made_plan(Degrees(tp=8), structure(DENSE)), made_plan(Degrees(tp=2, dp=3), structure(DENSE))
    pool = PrefillPool(Degrees(tp=2), 2, 2048, 3.5, 0.012, MemoryBudget(0, {"weights": 70 * GB}, 80 * GB))
    report = made_report(plan, apart=replace(decode, prefill=pool))
    said = " ".join(shown(explained(report, DENSE), capsys).split())
    assert "With prefill on devices of its own prefill by 2 × tp2 on 4 of 10 devices, decode by tp2-dp3 on 6" in said
    assert "120 tokens/s each (against the chosen: throughput -20%, 2 more devices); fullest rank 70.0 GB" in said
    assert "prefill takes up to 3.50 prompts/s; a prompt's cache travels 12.0 ms" in said
    document = plan_document(explained(report, DENSE))["apart"]
    assert document["devices"] == 10 and document["tp"] == 2 and document["prefill"]["instances"] == 2
    assert document["prefill"]["devices"] == 4 and document["prefill"]["memory"]["per_rank_bytes"][0]["total"] == 70 * GB
    assert plan_document(explained(made_report(plan), DENSE))["apart"] is None


def test_names_from_elsewhere_do_not_drive_the_terminal(capsys) -> None:
    spec = structure(DENSE)
    report = made_report(made_plan(Degrees(), spec), findings=(Finding("x", "y", "\x1b[31mred[bold]", Severity.NOTE),))
    text = shown(explained(report, DENSE), capsys)
    assert "\x1b" not in text and "red[bold]" in text


def test_estimates_that_are_missing_say_which_figure_is(capsys) -> None:
    plan = replace(made_plan(Degrees(tp=2), structure(DENSE)), estimates=Estimates(), binds=None)
    report = made_report(
        plan, findings=(Finding("estimate.no_figure", "x", "memory bandwidth is not known for x", Severity.NOTE),)
    )
    assert "not estimated: memory bandwidth is not known for x" in shown(explained(report, DENSE), capsys)


SIZES = st.dictionaries(
    st.sampled_from(["weights", "state", "activations", "logits", "odd"]), st.integers(0, 10**12), min_size=1
)


@given(SIZES, st.one_of(st.none(), st.integers(1, 10**12)), st.integers(8, 80))
def test_bars_fill_their_width(items: dict[str, int], limit: int | None, width: int) -> None:
    cells = bar_cells(items, limit, width)
    needed = sum(items.values())
    assert sum(count for _, count in cells) == (width if cells else 0)
    named = dict(cells)
    assert all(named.get(name, 0) >= (size > 0) for name, size in items.items())
    assert ("free" in named) == (limit is not None and needed < limit)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_groups_hold_each_rank_once(sizes: list[tuple[int, int]]) -> None:
    budgets = tuple(MemoryBudget(rank, {"weights": a, "state": b}, 10) for rank, (a, b) in enumerate(sizes))
    groups = rank_groups(budgets)
    assert sorted(rank for group in groups for rank in group.ranks) == list(range(len(sizes)))
    for group in groups:
        assert {budgets[rank].total_bytes for rank in group.ranks} == {group.total_bytes}
    assert len({tuple(sorted(group.items_bytes.items())) for group in groups}) == len(groups)


def test_the_emptiest_and_each_stage_are_told() -> None:
    plan = made_plan(Degrees(tp=2, pp=3), structure(DENSE))
    assert [(label, group.named) for label, group in telling_groups(plan)] == [
        ("fullest", "0-1"),
        ("stage 1", "2-3"),
        ("stage 2", "4-5"),
    ]
    many = telling_groups(made_plan(Degrees(pp=40), structure(DENSE)))
    assert len(many) == 6 and many[0][0] == "fullest" and many[-1][0] == "emptiest"


def test_the_document_keeps_its_shape_and_says_more() -> None:
    spec = structure(EXPERTS)
    found = explained(made_report(made_plan(Degrees(tp=8, ep=16, dp=2), spec), families=FAMILIES))
    document = plan_document(found)
    assert {"schema", "platform", "workload", "plan", "alternatives", "rejected", "candidates", "search_s", "findings"} <= set(
        document
    )
    plan = document["plan"]
    assert {"tp", "pp", "ep", "dp", "devices", "stage_layers", "memory", "estimates", "binds", "ladder"} <= set(plan)
    assert len(plan["memory"]["per_rank_bytes"]) == 16
    each = plan["memory"]["per_rank_bytes"][3]
    assert each == {"rank": 3, "weights": 50 * GB, "state": 8 * GB, "activations": 2 * GB, "reserve": 0, "total": 60 * GB,
                    "limit": 80 * GB}  # fmt: skip
    assert document["families"][0]["nearest"]["degrees"] == "tp16" and document["launch"]["schema"] == "dayzero.launch/1"
    json.dumps(document, allow_nan=False)
    large = plan_document(explained(made_report(made_plan(Degrees(tp=8, pp=2, ep=128, dp=64), spec))))
    assert [(one["ranks"], one["count"]) for one in large["plan"]["memory"]["by_ranks"]] == [
        ("0-511", 512),
        ("512-1023", 512),
    ]


def test_words() -> None:
    assert [seconds(value) for value in (0, 3.2e-5, 0.0123, 2.5, 1234.0)] == ["0 s", "32.0 µs", "12.3 ms", "2.50 s", "1,234 s"]
    assert [gigabytes(value) for value in (12, 120_000, 99_000_000, 141e9)] == ["12 B", "0.12 MB", "99.0 MB", "141.0 GB"]
    plan = made_plan(Degrees(tp=2), structure(DENSE))
    assert trade_words(plan, plan) == "chosen"


def test_what_if_shows_both_plans_and_what_the_change_gives(capsys) -> None:
    spec = structure(EXPERTS)
    before, after = made_plan(Degrees(tp=8, pp=2), spec), made_plan(Degrees(tp=8), spec)
    changes = (Change("links", factor=2.0), Change("nodes", more=-1), Change("network", absent=True))
    found = replace(explained(made_report(after)), changes=changes, unchanged=made_report(before))
    text = shown(found, capsys)
    assert "What if links=2x, nodes=-1, network=none" in text
    assert "against what is: 8 fewer devices" in text and "changed figures of the platform are assumed" in text
    document = plan_document(found)["what_if"]
    assert document["changes"][1]["more"] == -1 and document["unchanged"]["pp"] == 2
    for now, was, says in (
        (None, before, "with this change nothing fits any more"),
        (after, None, "only with this change something fits"),
        (after, after, "the same plan, and nothing measurable"),
    ):
        found = replace(explained(made_report(now)), changes=changes, unchanged=made_report(was))
        assert says in shown(found, capsys)
    assert plan_document(explained(made_report(after)))["what_if"] is None
