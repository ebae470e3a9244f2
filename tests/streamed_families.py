"""Families of tiny_families, observed layer by layer from files and from memory: both must say the same to the last bit.

`python tests/streamed_families.py` observes every family in both ways and writes docs/streaming-families.md.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tiny_families
from dayzero.domain.observations import LayerErrors, PerplexityObserved
from dayzero.domain.runs import Observation, RunRequest

TABLE = Path(__file__).parents[1] / "docs" / "streaming-families.md"
TOKENS = 24
OFTEN = ("deepseek_v3", "gpt_oss", "llama", "nemotron_h")
"""Latent attention with experts in files of their own, experts in one tensor, dense, Mamba: for the suite that runs often."""

SHOWN = (
    "falcon_h1", "gemma3_text", "gemma4_text", "glm4_moe", "gpt2", "jamba", "llama4_text", "longcat_flash", "minicpm3",
    "mixtral", "olmo2", "phi3", "qwen3_moe", "qwen3_next",
)  # fmt: skip
"""Further families of every kind of layer."""


@dataclass(frozen=True)
class Both:
    """What one family gave from memory and from the files; `why` where it gave nothing."""

    family: str
    layers: int = 0
    parameters: int = 0
    equal: bool = False
    why: str = ""


def checkpoint(family: str, folder: Path, dtype: str = "bfloat16", seed: int = 3) -> RunRequest:
    """A tiny checkpoint of the family with weights from the seed, and a request on it."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from dayzero.adapters.runners.dummy_weights import with_dummy_weights

    given = tiny_families.FAMILIES[family]
    (folder / "config").mkdir(parents=True)
    CONFIG_MAPPING[family](**given, dtype=dtype).save_pretrained(folder / "config")
    options: dict[str, int | float | str | bool] = {"dummy_seed": seed, "tokens": TOKENS, "compile": False, "windows": 2}
    asked = RunRequest(Observation.LAYERS, "cpu", str(folder / "config"), dtype=dtype, options=options)
    made = with_dummy_weights(asked, folder / "made")
    return replace(made, options={name: value for name, value in options.items() if name != "dummy_seed"})


def from_where(request: RunRequest, where: str, **options: Any) -> RunRequest:
    """The request with its layers from memory or streamed."""
    return replace(request, options={**request.options, "layers_from": where, **options})


def figures(observed: LayerErrors | PerplexityObserved) -> LayerErrors | PerplexityObserved:
    """What was observed, without when and from where."""
    return replace(observed, observed_s=0.0, source=None)


def layers_both(request: RunRequest) -> tuple[LayerErrors, LayerErrors]:
    """Layers from memory, and streamed."""
    from dayzero.adapters.runners.observe_layers import observe_layers

    held, streamed = (observe_layers(from_where(request, where)) for where in ("memory", "stream"))
    return held, streamed


def perplexity_both(request: RunRequest) -> tuple[PerplexityObserved, PerplexityObserved]:
    """Perplexity from memory, and streamed."""
    from dayzero.adapters.runners.observe_perplexity import observe_perplexity

    held, streamed = (observe_perplexity(from_where(request, where)) for where in ("memory", "stream"))
    return held, streamed


def observe_family(family: str, dtype: str = "bfloat16") -> Both:
    """One family in both ways."""
    from dayzero.domain.observations import TensorError

    with TemporaryDirectory() as folder:
        try:
            request = checkpoint(family, Path(folder), dtype)
        except Exception as error:  # noqa: BLE001 - whatever the library raises is a row of the table
            return Both(family, why=f"no checkpoint could be made: {_first(error)}")
        try:
            held, streamed = layers_both(request)
        except Exception as error:  # noqa: BLE001
            return Both(family, why=_first(error))
        source = streamed.source
        assert source is not None and source.streamed and source.reads == len(held.layers)
        assert all(isinstance(layer.target, TensorError) and layer.target.n for layer in held.layers)
        if figures(held) != figures(streamed):
            return Both(family, len(held.layers), why="layers differ")
        try:
            one, other = perplexity_both(request)
        except Exception as error:  # noqa: BLE001
            return Both(family, len(held.layers), equal=True, why=f"perplexity: {_first(error)}")
        if figures(one) != figures(other):
            return Both(family, len(held.layers), why="perplexity differs")
        return Both(family, len(held.layers), source.total_bytes // (2 if dtype == "bfloat16" else 4), True)


def _first(error: Exception) -> str:
    said = str(error).strip()
    return f"{type(error).__name__}: {said.splitlines()[0][:200]}" if said else type(error).__name__


def table(rows: Iterable[Both], library: str) -> str:
    """The rows as a page."""
    kept = list(rows)
    whole = [row for row in kept if row.equal and not row.why]
    lines = [
        "# Families whose layers can be streamed",
        "",
        f"Written by `python tests/streamed_families.py` with transformers {library}: a tiny checkpoint of each family in",
        f"bfloat16, {TOKENS} tokens, LAYERS and PERPLEXITY from memory and streamed. *Equal*: every figure of both, to the",
        "last bit.",
        f"{len(whole)} of {len(kept)} families are equal in both observations.",
        "",
        "| family | layers | LAYERS | PERPLEXITY |",
        "|---|--:|---|---|",
    ]
    for row in kept:
        layers = "equal" if row.equal else row.why.replace("|", "\\|")
        model = "equal" if row.equal and not row.why else row.why.replace("|", "\\|") if row.equal else "not run"
        lines.append(f"| {row.family} | {row.layers or ''} | {layers} | {model} |")
    return "\n".join(lines) + "\n"


def main(families: list[str]) -> None:
    """Observe and write; named families are only printed."""
    import transformers

    rows = []
    for family in families or sorted(tiny_families.FAMILIES):
        row = observe_family(family)
        print(row, flush=True)
        rows.append(row)
    if not families:
        TABLE.write_text(table(rows, transformers.__version__))


if __name__ == "__main__":
    main(sys.argv[1:])
