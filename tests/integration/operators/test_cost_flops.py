"""The closed forms of the cost model count the FLOPs that the modelling library runs."""

from functools import lru_cache
from pathlib import Path

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.domain.costs import Load
from dayzero.domain.operators import Phase, Trace, TraceOptions
from dayzero.domain.planning import Degrees, Workload
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.structure.reading import read_spec

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")

CONFIGS = Path(__file__).parents[2] / "golden" / "configs"


@lru_cache
def traced(name: str) -> Trace:
    return SubprocessTracer().trace((CONFIGS / f"{name}.json").read_bytes(), timeout_s=200, options=TraceOptions(degrees=()))


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("tiny_llama", Phase.PREFILL),
        ("tiny_llama", Phase.DECODE),
        ("tiny_qwen3_moe", Phase.PREFILL),
        ("tiny_qwen3_moe", Phase.DECODE),
        ("tiny_deepseek_v3", Phase.PREFILL),
    ],
)
def test_flops_are_those_of_the_trace(name: str, phase: Phase) -> None:
    """Fused attention computes every score of a prompt, masked or not; the trace makes logits of the last token."""
    trace = traced(name)
    numbers = next(finding.numbers for finding in trace.findings if finding.code == "trace.workload")
    tokens, context = int(numbers["prefill_tokens"] or 0), int(numbers["decode_context_tokens"] or 0)
    spec = read_spec((CONFIGS / f"{name}.json").read_bytes(), None)
    serving = Estimator(spec, load_profiles(None)["h200"], Workload()).likely
    assert serving is not None
    load = Load(tokens, tokens, 0, 0) if phase is Phase.PREFILL else Load(0, 0, 1, context)
    kinds = [serving.steps.operations(kind, Degrees(), load, 2) for kind in range(len(serving.steps.classes))]
    layers = sum(operation.flops for kind in serving.steps.class_of for operation in kinds[kind])
    head = 2.0 * (spec.vocabulary_size or 0) * (spec.hidden_size or 0)
    seen = sum(use.flops or 0 for use in trace.uses if use.phase is phase and use.part_of is None)
    assert layers + head == pytest.approx(seen, rel=0.03)
