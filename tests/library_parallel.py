"""The modelling library's own parallel runs on tiny models with dummy weights: what the ladder finds of each."""

from dataclasses import dataclass
from pathlib import Path

import tiny_families
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.observations import CheckName
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.judging.checks import judge
from observing import LIMITS

TP2, PP2, EP2 = Degrees(tp=2), Degrees(pp=2), Degrees(tp=2, ep=2)
DEGREES = (TP2, PP2, EP2)
SEED = 20
MIXTURES = ("num_experts", "num_local_experts", "n_routed_experts", "moe_topk")


@dataclass(frozen=True, slots=True)
class Found:
    """One family under some degrees: each check's verdict and reason, and the largest share of parameters on a rank."""

    family: str
    degrees: Degrees
    checks: dict[str, Check]

    @property
    def verdict(self) -> Verdict:
        """The worst."""
        verdicts = [check.verdict for check in self.checks.values()]
        return next(one for one in (Verdict.FAIL, Verdict.ERROR, Verdict.PASS, Verdict.NOT_RUN) if one in verdicts)

    @property
    def share(self) -> float | None:
        """The largest share of the parameters on a rank."""
        return self.checks[CheckName.PARALLEL_SHARE.value].measured

    @property
    def reason(self) -> str:
        """What is wrong, in the words of the checks; empty when nothing is."""
        wrong = [one for one in self.checks.values() if one.verdict in (Verdict.FAIL, Verdict.ERROR)]
        return "; ".join(dict.fromkeys(one.reason for one in wrong))


def configured(family: str, into: Path) -> Path:
    """The folder with a family's tiny configuration."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(family, **tiny_families.FAMILIES[family])
    config.dtype = "float32"
    into.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(into)
    return into


def has_experts(family: str) -> bool:
    """Whether the family's configuration class knows experts."""
    from transformers import AutoConfig

    known = AutoConfig.for_model(family)
    return any(hasattr(known, name) for name in MIXTURES)


def is_causal(family: str) -> bool:
    """Whether the library has a causal language model of that name."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return family in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def run(runner: SubprocessRunner, family: str, degrees: Degrees, folder: Path) -> Found:
    """The library's ranks of the family beside one process of it."""
    request = RunRequest(
        Observation.PARALLEL, "cpu", str(configured(family, folder)), degrees=degrees,
        options={"engine": "transformers", "dummy_seed": SEED},
    )  # fmt: skip
    judged = judge(request, runner.run(request, LIMITS), load, LIMITS)
    return Found(family, degrees, {check.check: check for check in judged.checks})
