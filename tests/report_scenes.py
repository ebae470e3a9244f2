"""Reports for tests: an entry with a culprit, memory of several ranks, waivers, and strings that a hub might send."""

from dataclasses import replace
from datetime import timedelta

from dayzero.domain.entry import CompatibilityEntry, Correctness
from dayzero.domain.entry_report import DeployFile, LayerFigures, LayerSeries, MemorySeries, RankFigures, Report
from dayzero.domain.observations import CheckName
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Measurement, Verdict
from dayzero.domain.waivers import Waiver
from dayzero.stages.reporting.summing import features, layer_verdicts
from store_nouns import DAY_ZERO, entry

HOSTILE = "<script>alert('1')</script>\x1b[31m\"onload=\"x \u202egnp.exe " + "A" * 10_000
"""Script, an escape sequence, a mark that turns the direction of text, and far too many characters."""


def checked(name: str, verdict: Verdict = Verdict.PASS, *, layer: CheckLayer = CheckLayer.PRECISION, rung: str = "tp1",
            **more: object) -> Check:  # fmt: skip
    """A check by its name."""
    made = Check(
        layer, name, rung, verdict, Grade.MEASURED, f"{name} is {verdict.value}", measured=0.002, tolerance=0.004, n=285
    )
    return replace(made, **more)  # type: ignore[arg-type]


def layers(count: int = 32, guilty: int | None = 11, factor: float = 1.0) -> LayerSeries:
    """Layers in bfloat16; from the guilty one on each inherits an error."""
    rows = []
    for index in range(count):
        native = 0.003 * (1 + 0.3 * ((index * 7) % 5))
        own = native * (1.1 if index != guilty else 60.0) * factor
        inherits = guilty is not None and index > guilty
        rows.append(
            LayerFigures(
                index=index, module=f"model.layers.{index}", own=own, native=native,
                inherited=native * (1.3 if not inherits else 70.0), tolerance=2 * max(native, 2**-8),
                stands_out=index == guilty,
                inherits=inherits, identical=index == 3, tokens=512, tokens_excluded=4 if index == 5 else 0,
                why="relative error 0.19, tolerance 0.0086",
            )
        )  # fmt: skip
    accused = () if guilty is None else (guilty,)
    return LayerSeries(CheckName.LAYERS_THREE_WAY.value, "tp1", "bfloat16", "float32", "compiled", 512, tuple(rows), accused)


def memory(ranks: int = 4) -> MemorySeries:
    """Ranks of which some were measured."""
    rows = tuple(
        RankFigures(
            rank,
            {"weights": 6 * 10**9, "state": 10**9 + rank * 10**8, "activations": 8 * 10**8, "reserve": 4 * 10**8},
            {"weights": 6 * 10**9, "state": 10**9, "activations": 11 * 10**8} if rank < 3 else {},
            12 * 10**9,
        )
        for rank in range(ranks)
    )
    return MemorySeries("planned for 4,096 tokens of context and 8 sequences at once", f"tp{ranks}", rows)


def failing_entry(text: str = "org/model") -> CompatibilityEntry:
    """A failing entry all of whose words are `text`."""
    checks = (
        checked(CheckName.LAYERS_THREE_WAY.value, Verdict.FAIL, reason=text, evidence=("a" * 64,)),
        checked(CheckName.MODEL_PERPLEXITY.value, numbers={"perplexity_low": 24.6, "perplexity_high": 47.2, "text": text}),
        checked(CheckName.GENERATION.value, layer=CheckLayer.END_TO_END),
        checked(CheckName.PARALLEL_LOGITS.value, Verdict.NOT_RUN, layer=CheckLayer.MEMORY_PARALLELISM, rung="tp3"),
    )
    made = entry("content", Correctness.FAILING, checks=checks)
    return replace(
        made,
        key=replace(made.key, model=text),
        reason=text,
        sample_text=f"{text}\nsecond line",
        gaps=(text,),
        missing_checks=("model.perplexity",),
        measurements=(
            Measurement("ttft", 0.12, "s", {"plan": "tp1", "path": text}),
            Measurement("tpot", 0.04, "s", {"plan": "tp1"}, 63),
            Measurement("throughput", 1234.5, "tokens/s", {"plan": "tp1"}, 64),
        ),
        culprits=(Culprit(11, f"model.layers.11.mlp.{text}", text, 0.19, 0.0086),),
        waivers=(Waiver("w", text, "*", "layers.three_way", text, text, DAY_ZERO + timedelta(days=30), DAY_ZERO),),
    )


def report(text: str = "org/model", *, series: LayerSeries | None = None, stack: dict[str, str] | None = None) -> Report:
    """A report with every part of a page."""
    made = failing_entry(text)
    packages = {"torch": "2.9.0", "transformers": "5.0.0"} if stack is None else stack
    return Report(
        entry=made,
        release=f"hf:{text}@r1",
        stack=packages,
        verdicts=layer_verdicts(made),
        features=features(made, packages),
        layers=(series or layers(),),
        memory=(memory(),),
        deploy=(DeployFile("launch.sh", f"#!/bin/sh\n# {text}\n"),),
        unread=(text,),
    )
