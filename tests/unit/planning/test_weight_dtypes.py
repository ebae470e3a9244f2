"""Weights in another dtype: what a conversion would leave, whose plan is best, and what the others would have been."""

from dataclasses import replace

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.plan import NearestMiss, PlanReport
from dayzero.domain.planning import Degrees, Objective, Workload
from dayzero.errors import BadInputError
from dayzero.stages.layout.shares import weight_table
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.weight_dtypes import WEIGHT_DTYPES, Stored, choices_of, chosen, dtype_of, stored_as
from golden_models import spec_of

PROFILES = load_profiles(None)
LLAMA = "meta-llama/Meta-Llama-3.1-405B"
WORKLOAD = Workload(context_tokens=4096, concurrency=8, objective=Objective.THROUGHPUT)


def weight_bytes(spec: ModelSpec) -> int:
    table = weight_table(spec, None)
    assert table is not None
    (stage,) = table.stages(Degrees())
    return stage.common_bytes + sum(stage.experts_bytes)


def planned(
    model: str, platform: str, devices: int, *dtypes: str, workload: Workload = WORKLOAD
) -> tuple[PlanReport, tuple[Finding, ...]]:
    spec, profile = spec_of(model), PROFILES[platform]
    asked = replace(workload, weight_dtypes=dtypes)
    stored, refused = choices_of(spec, None, profile, asked)
    reports = [(one, plan_for(one.spec, one.index, profile, asked, devices=devices, memory_limit_bytes=None)) for one in stored]
    return chosen(reports, asked), refused


def test_fp8_of_a_model_takes_what_its_publisher_s_fp8_takes() -> None:
    published = spec_of("deepseek-ai/DeepSeek-V3")
    assert dtype_of(published) == "fp8"
    whole = stored_as(published, None, "bfloat16").spec
    assert dtype_of(whole) == "bfloat16"
    assert weight_bytes(stored_as(whole, None, "fp8").spec) == weight_bytes(published)
    assert weight_bytes(whole) == pytest.approx(2 * published.parameters.total, rel=0.05)


def test_the_checkpoint_s_own_dtype_keeps_its_headers() -> None:
    spec = spec_of(LLAMA)
    assert stored_as(spec, None, "bfloat16") == Stored(None, spec, None) == stored_as(spec, None, None)
    assert stored_as(spec, None, "fp8").dtype == "fp8"


def test_the_smaller_dtype_fits_where_the_own_does_not_and_asks_for_a_conversion() -> None:
    report, refused = planned(LLAMA, "h200", 4, "bfloat16", "fp8")
    assert refused == ()
    assert report.plan is not None and report.plan.choices.weight_dtype == "fp8"
    assert any("dayzero convert MODEL --to fp8-block" in warning for warning in report.plan.warnings)
    (other,) = [one for one in report.findings if one.code == "plan.other_weight_dtype"]
    assert other.message.startswith("weights in bfloat16: nothing fits, short by ")


def test_the_own_dtype_is_taken_without_a_conversion_where_it_is_best() -> None:
    workload = replace(WORKLOAD, objective=Objective.FEWEST_DEVICES)
    report, _ = planned("deepseek-ai/DeepSeek-V3", "h200", 16, "fp8", "bfloat16", workload=workload)
    assert report.plan is not None and report.plan.choices.weight_dtype is None
    assert any(one.message.startswith("weights in bfloat16: ") for one in report.findings)


def test_nothing_fits_in_any_dtype_and_the_nearest_is_told() -> None:
    report, _ = planned(LLAMA, "h200", 1, "bfloat16", "int4")
    assert report.plan is None and report.nearest is not None
    assert report.nearest.budget.items_bytes["weights"] < 3e11
    assert any("weights in bfloat16: nothing fits" in one.message for one in report.findings)


def test_a_platform_without_the_arithmetic_takes_no_such_weights() -> None:
    report, refused = planned("deepseek-ai/DeepSeek-V3", "ascend-910c", 64, "bfloat16", "int4")
    assert report.plan is not None and refused == ()
    spec = spec_of(LLAMA)
    with pytest.raises(BadInputError, match="ascend-910c takes no fp8 weights"):
        choices_of(spec, None, PROFILES["ascend-910c"], replace(WORKLOAD, weight_dtypes=("fp8",)))
    taken, refused = choices_of(spec, None, PROFILES["ascend-910c"], replace(WORKLOAD, weight_dtypes=("fp8", "bfloat16")))
    assert [one.dtype for one in taken] == [None]
    assert "fp8" in refused[0].message


def test_an_unknown_dtype_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadInputError, match="not planned in fp9") as raised:
        stored_as(spec_of(LLAMA), None, "fp9")
    assert all(name in (raised.value.remedy or "") for name in WEIGHT_DTYPES)


def test_the_remedy_of_quantizing_buys_what_a_plan_with_such_weights_takes_less() -> None:
    model, h200 = spec_of(LLAMA), PROFILES["h200"]

    def nearest(spec: ModelSpec) -> NearestMiss:
        # Too little for any of them: each comes as near as it can.
        found = plan_for(spec, None, h200, WORKLOAD, devices=8, memory_limit_bytes=2**30, fixed=Degrees(tp=8)).nearest
        assert found is not None
        return found

    whole = nearest(model)
    gains = {remedy.action: remedy.gain_bytes for remedy in whole.remedies}
    for dtype, action in (("fp8", "weights quantized to fp8"), ("int4", "weights quantized to 4 bits")):
        smaller = nearest(stored_as(model, None, dtype).spec)
        assert gains[action] == whole.budget.total_bytes - smaller.budget.total_bytes
