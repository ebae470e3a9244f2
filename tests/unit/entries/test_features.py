"""The layers of an entry in a line each, and the features that its checks prove."""

from dayzero.domain.entry import EntryKey
from dayzero.domain.features import Feature, Interval
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Check, CheckLayer, Grade, Mode, Verdict
from dayzero.stages.entries.features import features_of, layers_of

KEY = EntryKey("org/m", "c", "cpu", "s", "torch", "bfloat16", Degrees(tp=2), Mode.INFERENCE)
STACK = {"torch": "2.9", "transformers": "5.0", "python": "3.11"}


def check(name: str, layer: CheckLayer, verdict: Verdict = Verdict.PASS, rung: str = "tp1", **more: object) -> Check:
    return Check(layer, name, rung, verdict, more.pop("grade", Grade.MEASURED), "because", **more)  # type: ignore[arg-type]


PERPLEXITY = check(
    "model.perplexity", CheckLayer.PRECISION, n=285, numbers={"perplexity_low": 9.5, "perplexity_high": 10.5, "text": "t"}
)
GENERATION = check("end_to_end.generation", CheckLayer.END_TO_END, n=3, numbers={"prompt_tokens": 5, "new_tokens": 16})
IMAGE = check("image.build", CheckLayer.END_TO_END, Verdict.FAIL)


def test_layers_say_the_worst_with_the_samples_intervals_and_what_is_missing() -> None:
    coverage = check("operators.coverage", CheckLayer.OPERATOR_COVERAGE, n=40, grade=Grade.DECLARED)
    memory = check("memory.peak", CheckLayer.MEMORY_PARALLELISM, Verdict.ERROR, n=1)
    layers = layers_of((coverage, PERPLEXITY, memory, GENERATION, IMAGE), KEY, ("model.logits or model.embeddings",))
    assert [(one.layer.value, one.verdict.value, one.grade.value, one.n) for one in layers] == [
        ("operator_coverage", "pass", "declared", 40),
        ("precision", "not_run", "measured", 285),
        ("memory_parallelism", "error", "measured", 1),
        ("end_to_end", "pass", "measured", 3),
    ]
    assert layers[1].intervals == (Interval("model.perplexity", "perplexity", 9.5, 10.5),)
    assert layers[1].missing == ("model.logits or model.embeddings",)


def test_a_layer_that_nobody_ran_or_only_foresaw_is_not_run() -> None:
    foreseen = check("memory.plan", CheckLayer.MEMORY_PARALLELISM, grade=Grade.PREDICTED)
    assert {one.verdict for one in layers_of((foreseen,), KEY, ())} == {Verdict.NOT_RUN}
    assert all((one.n, one.checks, one.grade) == (0, 0, Grade.PREDICTED) for one in layers_of((), KEY, ()))


def test_features_are_what_was_tried_with_its_verdict() -> None:
    checks = (
        PERPLEXITY,
        GENERATION,
        check("parallel.logits", CheckLayer.MEMORY_PARALLELISM, rung="tp2"),
        check("parallel.logits", CheckLayer.MEMORY_PARALLELISM, Verdict.FAIL, rung="pp2"),
        check("cache.int8_head", CheckLayer.PRECISION, Verdict.NOT_RUN),
        check("fine_tune.lora", CheckLayer.END_TO_END),
    )
    found = {(one.feature, one.value): one.verdict.value for one in features_of(checks, KEY, "fp8", STACK)}
    assert found == {
        ("dtype", "bfloat16"): "pass", ("quantization", "fp8"): "pass",
        ("engine", "torch (torch 2.9 transformers 5.0)"): "pass",
        ("parallelism", "tp2"): "pass", ("parallelism", "pp2"): "fail", ("cache_dtype", "int8_head"): "not_run",
        ("fine_tune", "lora"): "pass", ("context_tokens", "21"): "pass",
    }  # fmt: skip
    assert features_of((), KEY, "fp8", STACK) == ()
    assert features_of((PERPLEXITY,), KEY, None, {}) == (), "its tokens are those of several windows"
    decoded = check("decoding.three_way", CheckLayer.PRECISION, numbers={"prompt_tokens": 64, "chunk_tokens": 16})
    (only,) = features_of((decoded,), KEY, None, {})
    assert only == Feature("context_tokens", "80", Verdict.PASS, Grade.MEASURED, "decoding.three_way")
