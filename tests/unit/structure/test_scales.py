"""E02: weights in 8-bit floats without their scales are valid numbers, about a thousand times off: they are refused."""

import pytest

from dayzero.domain.conversion import WeightFormat
from dayzero.domain.findings import Severity
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.conversion.planning import plan_conversion
from dayzero.stages.layout.names import Leaf, place_of
from dayzero.stages.layout.scales import scale_of, without_scale
from small_structures import LLAMA, headers, llama_headers, read

WEIGHT = "model.layers.0.mlp.up_proj.weight"
MODULE = WEIGHT.removesuffix("weight")
SPELLED = ("weight_scale_inv", "weight_scale", "scale_weight")


def index(*rows: tuple[str, str, tuple[int, ...]]) -> CheckpointIndex:
    sizes = {"F8_E4M3": 1, "F32": 4}
    tensors, begin = [], 0
    for name, dtype, shape in rows:
        end = begin + sizes[dtype] * (shape[0] * shape[1])
        tensors.append(TensorHeader(name, dtype, shape, "model.safetensors", begin, end))
        begin = end
    return CheckpointIndex(tuple(tensors), ())


@pytest.mark.parametrize("spelling", SPELLED)
def test_e02_every_spelling_is_the_scale_of_its_weight(spelling: str) -> None:
    names = {WEIGHT, MODULE + spelling}
    assert scale_of(WEIGHT, names) == MODULE + spelling
    assert place_of(MODULE + spelling, 1).leaf is Leaf.SCALE
    assert without_scale(index((WEIGHT, "F8_E4M3", (256, 256)), (MODULE + spelling, "F32", (2, 2))).tensors) == ()


@pytest.mark.parametrize("other", ["input_scale", "k_scale", "bias", "weight_scale_2"])
def test_e02_another_scale_of_the_module_is_none_of_the_weight(other: str) -> None:
    found = without_scale(index((WEIGHT, "F8_E4M3", (256, 256)), (MODULE + other, "F32", (1, 1))).tensors)
    assert found == (WEIGHT,)


def test_e02_the_scale_of_another_module_does_not_match() -> None:
    other = "model.layers.1.mlp.up_proj.weight_scale_inv"
    assert without_scale(index((WEIGHT, "F8_E4M3", (256, 256)), (other, "F32", (2, 2))).tensors) == (WEIGHT,)


def test_e02_stacked_experts_have_their_scale_behind_their_name() -> None:
    name = "model.layers.0.mlp.experts.gate_up_proj"
    assert scale_of(name, {f"{name}_scale_inv"}) == f"{name}_scale_inv"
    assert scale_of(name, {"model.layers.0.mlp.experts.down_proj_scale_inv"}) is None


def test_e02_scales_in_8_bit_floats_need_no_scale() -> None:
    rows = (("a.weight_packed", "F8_E4M3", (2, 2)), ("a.weight_scale", "F8_E4M3", (2, 2)))
    assert without_scale(index(rows[1]).tensors) == ()


def test_e02_a_conversion_refuses_a_weight_without_its_scale() -> None:
    with pytest.raises(BadInputError, match="has no scale beside it"):
        plan_conversion(index((WEIGHT, "F8_E4M3", (256, 256))), None, WeightFormat.BFLOAT16)


@pytest.mark.parametrize("spelling", SPELLED)
def test_e02_a_conversion_takes_every_spelling(spelling: str) -> None:
    plan = plan_conversion(
        index((WEIGHT, "F8_E4M3", (256, 256)), (MODULE + spelling, "F32", (2, 2))), None, WeightFormat.BFLOAT16
    )
    (one,) = [conversion for _file, made in plan.files for conversion in made]
    assert one.scales is not None
    assert (one.values.name, one.scales.name, one.outputs[0].dtype) == (WEIGHT, MODULE + spelling, "BF16")


def test_e02_the_structure_says_which_weights_have_none() -> None:
    rows = [(name, "F8_E4M3" if "proj" in name else dtype, shape) for name, dtype, shape in llama_headers()]
    eights = [name.removesuffix("weight") for name, dtype, _ in rows if dtype == "F8_E4M3"]
    rows += [(f"{module}input_scale", "F32", (1, 1)) for module in eights]
    config = {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    (found,) = [one for one in read(config, headers(*rows)).findings if one.code == "weights.no_scale"]
    assert (found.severity, found.numbers) == (Severity.ERROR, {"without": 14, "of": 14})
