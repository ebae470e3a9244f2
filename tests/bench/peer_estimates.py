"""Our estimates beside a peer's for the same configurations: a row each, rank correlation and ratio by model and platform."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.costs import Efficiencies
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.stages.cost.efficiency import ASSUMED
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.cost.serving import ServingCost
from dayzero.stages.structure.reading import read_spec
from golden_models import models

FITTED = ("meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-30B-A3B")
"""Models whose predictions the efficiencies were fitted to."""
HELD_OUT = ("deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B", "meta-llama/Meta-Llama-3.1-70B")
"""Models that the fit has not seen."""
SYSTEMS = {"h200_sxm": "h200", "b200_sxm": "b200"}
_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "activation_scheme": "dynamic"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One configuration: output tokens/s a device and seconds a token, ours and the peer's."""

    platform: str
    model: str
    degrees: Degrees
    ours_tokens_per_s: float
    peer_tokens_per_s: float
    ours_tpot_s: float
    peer_tpot_s: float


@cache
def structure(name: str) -> ModelSpec:
    """A published model's structure; a name that ends in -FP8 is its block-quantized edition."""
    model = next(model for model in models() if model.name == name.removesuffix("-FP8"))
    if not name.endswith("-FP8"):
        return read_spec(model.config, None, side=model.side)
    return read_spec(json.dumps({**json.loads(model.config), "quantization_config": _FP8}).encode(), None)


def degrees_of(row: Mapping[str, object]) -> Degrees | None:
    """The peer's configuration in our words; None where experts are cut and replicas of attention share them."""
    tp, pp, attention_dp, _, ep = row["degrees"]
    if ep == 1:
        return Degrees(tp, pp) if attention_dp == 1 else None
    return Degrees(tp, pp, ep, attention_dp)


def compare(rows: Iterable[Mapping[str, object]], efficiencies: Efficiencies = ASSUMED) -> list[Compared]:
    """Each of the peer's rows with our estimate. A peer's batch is one of as many micro-batches as there are stages."""
    profiles = load_profiles(None)
    known: dict[tuple[object, ...], ServingCost] = {}
    found = []
    for row in rows:
        degrees = degrees_of(row)
        platform, model = SYSTEMS[row["system"]], row["model"]
        key = (platform, model, row["prompt"], row["generated"])
        if degrees is None:
            continue
        if key not in known:
            workload = Workload(context_tokens=row["prompt"] + row["generated"], output_tokens=row["generated"])
            serving = Estimator(structure(model), profiles[platform], workload, efficiencies).likely
            assert serving is not None
            known[key] = serving
        choices = Choices(cache_dtype="fp8" if row["cache"] == "fp8" else None, chunk_tokens=row["prompt"])
        pace = known[key].pace(degrees, choices, row["batch"] * degrees.pp)
        assert pace is not None
        ours = row["batch"] * degrees.pp * degrees.dp / pace.tpot_s / degrees.world
        found.append(Compared(platform, model, degrees, ours, row["tokens_per_s_per_device"], pace.tpot_s, row["tpot_s"]))
    return found


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation; ties share their mean rank."""
    return statistics.correlation(_ranks(left), _ranks(right))


def summary(found: Iterable[Compared]) -> dict[tuple[str, str], tuple[int, float, float, float]]:
    """By platform and model: configurations, rank correlation of throughput, median ratio of throughput and of time a token."""
    groups: dict[tuple[str, str], list[Compared]] = defaultdict(list)
    for one in found:
        groups[(one.platform, one.model)].append(one)
    return {
        key: (
            len(group),
            spearman([one.ours_tokens_per_s for one in group], [one.peer_tokens_per_s for one in group]),
            statistics.median(one.ours_tokens_per_s / one.peer_tokens_per_s for one in group),
            statistics.median(one.ours_tpot_s / one.peer_tpot_s for one in group),
        )
        for key, group in groups.items()
    }


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and values[ordered[end + 1]] == values[ordered[at]]:
            end += 1
        for place in range(at, end + 1):
            ranks[ordered[place]] = (at + end) / 2
        at = end + 1
    return ranks
