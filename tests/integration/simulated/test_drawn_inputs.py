"""Operator calls over drawn inputs on a device with kernels of its own; the long version is in tests/prove."""

import pytest

import sampling_scenes
from dayzero.domain.verdict import Verdict

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


def test_a_kernel_that_saturates_is_named_with_the_inputs_that_show_it() -> None:
    saturating, flushing = sampling_scenes.scene("planted", "silu,flush", "llama", "bfloat16")
    assert sampling_scenes.is_found(saturating), saturating["reason"]
    assert "in model.layers.0.mlp.act_fn on large magnitude inputs" in saturating["reason"]
    assert sampling_scenes.is_found(flushing), "a behaviour with a name, and no fault in bfloat16"
    assert flushing["numbers"]["flush_subnormals"] > 0


@pytest.mark.slow
def test_sound_kernels_raise_no_alarm_and_the_rest_equals_the_hosts() -> None:
    for row in sampling_scenes.scene("clean", "llama", "float32,bfloat16,float16", "0"):
        numbers = row["numbers"]
        assert row["verdict"] == Verdict.PASS.value, row["reason"]
        assert numbers["judged"] > 0, "the device's matrix unit takes another path"
        assert numbers["judged"] + numbers["identical"] + numbers["not_comparable"] == row["calls"] == numbers["new"]
        assert numbers["asked"] == numbers["new"] + numbers["known"] + numbers["left_out"]


@pytest.mark.slow
def test_the_other_faults_are_found_where_they_show() -> None:
    for row in sampling_scenes.scene("planted", "softmax,rsqrt,flush", "llama", "float16"):
        assert sampling_scenes.is_found(row), row
