"""What stands outside of the layers, overflow, paths that a prompt misses, and cached decoding: figures in, verdicts out."""

from dataclasses import replace

import pytest

from dayzero.codec import dump, load
from dayzero.domain.observations import LayerError, LayerErrors, ModuleError, Part, PartError, PathReach, TensorError
from dayzero.domain.observed_decoding import DecodeErrors, DecodeLayerError
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import Judged, judge
from dayzero.stages.precision import limits

GOOD = TensorError(96, 0.004, 0.01, 0.9999)
OFF = TensorError(96, 0.3, 1.0, 0.9)
NOTHING = TensorError(0, None, None, None, 96)
SAME = TensorError(96, 0.0, 0.0, 1.0)


def judged(observation: Observation, document: object) -> Judged:
    return judge(RunRequest(observation, "cpu"), RunOutcome(RunEnd.COMPLETED, dump(document), "", "", 1.0, None), load)


def layer(index: int, target: TensorError = GOOD, **changed: object) -> LayerError:
    made = LayerError(index, f"model.layers.{index}", target, GOOD, target, GOOD, 1.0, GOOD, GOOD, False, 96, 0, 35.0)
    return replace(made, **changed)  # type: ignore[arg-type]


def layers(*rows: LayerError, **changed: object) -> LayerErrors:
    made = LayerErrors("bfloat16", "float32", "compiled", "eager", 96, "tokenizer", rows)
    return replace(made, **changed)  # type: ignore[arg-type]


def test_a_part_outside_of_the_layers_is_a_culprit_without_a_layer() -> None:
    rotary = PartError(Part.ROTARY, "model.rotary_emb", OFF, GOOD, (0, 1), "base 10000 instead of 500000")
    result = judged(Observation.LAYERS, layers(layer(0), layer(1), parts=(rotary,)))
    (check,) = result.checks
    assert check.verdict is Verdict.FAIL
    assert [(culprit.layer_index, culprit.module) for culprit in result.culprits] == [(None, "model.rotary_emb")]
    assert "rotary tables of model.rotary_emb" in check.reason and "base 10000 instead of 500000" in check.reason


@pytest.mark.parametrize(("largest", "verdict"), [(0.0, Verdict.PASS), (1.0, Verdict.FAIL)])
def test_a_mask_must_allow_exactly_what_the_references_does(largest: float, verdict: Verdict) -> None:
    error = TensorError(9216, 0.0001 * largest, largest, 1.0)
    mask = PartError(Part.MASK, "model (mask)", error, SAME)
    assert judged(Observation.LAYERS, layers(layer(0), parts=(mask,))).checks[0].verdict is verdict


def test_a_faulty_part_is_found_though_the_layers_equal_the_references_bit_for_bit() -> None:
    head = PartError(Part.HEAD, "lm_head", OFF, GOOD)
    observed = layers(layer(0, identical=True))
    assert judged(Observation.LAYERS, observed).checks[0].verdict is Verdict.NOT_RUN
    assert judged(Observation.LAYERS, replace(observed, parts=(head,))).checks[0].verdict is Verdict.FAIL


def test_the_first_layer_beyond_float16_fails_and_later_ones_are_nobodys_fault() -> None:
    """Case E01: activations of gpt-oss climb until layer 4 is beyond what float16 holds (onnxruntime-genai #2444)."""
    values = (35.0, 900.0, 12000.0, 45344.0, 70000.0)
    rows = [layer(index, largest=value) for index, value in enumerate(values)]
    after = layer(5, NOTHING, native=NOTHING, output_native=NOTHING, reference_nonfinite=96, largest=None)
    observed = layers(*rows, after, native_dtype="float16")
    result = judged(Observation.LAYERS, observed)
    assert result.checks[0].verdict is Verdict.FAIL
    assert [(culprit.layer_index, culprit.error) for culprit in result.culprits] == [(4, 70000.0)]
    assert "layer 4 overflows float16" in result.checks[0].reason and "bfloat16" in result.checks[0].reason
    sound = judged(Observation.LAYERS, layers(*rows, native_dtype="bfloat16"))
    assert sound.checks[0].verdict is Verdict.PASS


def test_an_overflow_inside_a_layer_counts_though_its_output_would_fit() -> None:
    inside = layer(1, native=TensorError(90, 0.1, 1.0, 0.99, 6))
    result = judged(Observation.LAYERS, layers(layer(0), inside, native_dtype="float16"))
    assert (result.checks[0].verdict, result.culprits[0].layer_index) == (Verdict.FAIL, 1)


def test_a_reference_that_is_not_a_number_says_nothing() -> None:
    broken = layer(0, NOTHING, native=NOTHING, output_native=NOTHING, reference_nonfinite=96)
    assert judged(Observation.LAYERS, layers(broken)).checks[0].verdict is Verdict.ERROR


def test_what_a_prompt_is_too_short_for_is_said() -> None:
    """Case E04: window and sinks ignored show only beyond the window (sglang #30050)."""
    reached = {
        tokens: judged(
            Observation.LAYERS,
            layers(layer(0), tokens=tokens, paths=(PathReach("beyond the window of 128", 129, tokens > 128),)),
        ).checks[0]
        for tokens in (64, 128, 129, 512)
    }
    assert [check.verdict for check in reached.values()] == [Verdict.PASS] * 4
    assert [tokens for tokens, check in reached.items() if check.numbers["paths_not_reached"]] == [64, 128]
    assert "64 tokens do not reach what is beyond the window of 128" in reached[64].reason


def step(index: int, target: TensorError = GOOD, handed: TensorError | None = GOOD, **changed: object) -> DecodeLayerError:
    made = DecodeLayerError(index, f"model.layers.{index}", target, handed, GOOD, False, 12)
    return replace(made, **changed)  # type: ignore[arg-type]


def decoding(*rows: DecodeLayerError, **changed: object) -> DecodeErrors:
    made = DecodeErrors("bfloat16", "float32", "eager, sdpa", "eager", 52, 4, 8, "tokenizer", rows)
    return replace(made, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observed", "verdict", "words"),
    [
        (decoding(step(0), step(1)), Verdict.PASS, "12 tokens behind 52"),
        (decoding(step(0), step(1, OFF, OFF)), Verdict.FAIL, "layer 1 decodes wrongly"),
        (decoding(step(0), step(1, OFF)), Verdict.FAIL, "prefill leaves in the cache"),
        (decoding(step(0, OFF, None)), Verdict.FAIL, "layer 0"),
        (decoding(step(0, identical=True)), Verdict.NOT_RUN, "bit for bit"),
        (decoding(not_run_because="the model keeps no cache"), Verdict.NOT_RUN, "no cache"),
        (decoding(step(0, native=OFF)), Verdict.ERROR, "itself far from float32"),
        (decoding(step(0, tokens_excluded=7)), Verdict.ERROR, "undecided"),
        (decoding(step(0), parts=(PartError(Part.ROTARY, "model.rotary_emb", OFF, GOOD),)), Verdict.FAIL, "rotary tables"),
    ],
)
def test_cached_decoding(observed: DecodeErrors, verdict: Verdict, words: str) -> None:
    (check,) = judged(Observation.DECODING, observed).checks
    assert check.verdict is verdict, check.reason
    assert words in check.reason


def test_the_module_that_decodes_wrongly_is_named() -> None:
    inner = ModuleError(1, "model.layers.1.self_attn", None, OFF, GOOD, 1)
    result = judged(Observation.DECODING, decoding(step(0), step(1, OFF, OFF), suspects=(inner,)))
    assert [(culprit.layer_index, culprit.module) for culprit in result.culprits] == [(1, inner.module)]


def test_nothing_compared_is_never_equal() -> None:
    line = limits.mean_line(TensorError(0, None, None, None, 0), TensorError(0, None, None, None, 0), "float32")
    assert line.measured is None
