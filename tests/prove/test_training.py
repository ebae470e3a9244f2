"""Fine-tuning three ways over architectures, dtypes and seeds, sound and with a wrong backward: docs/proofs/training.json."""

from pathlib import Path
from typing import Any

import pytest

from dayzero.adapters.runners.child import observe
from dayzero.codec import dump, load
from dayzero.domain.observed_training import TrainingObserved
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import judge
from dayzero.stages.precision import training as limits
from dayzero.stages.precision.planting import planted_layer
from dummy_models import dummy_model
from proofs import write_series

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(7200), pytest.mark.filterwarnings("ignore")]
KINDS = {"llama": "dense", "qwen3_moe": "experts", "qwen3_next": "hybrid, experts", "deepseek_v3": "latent, experts"}
DTYPES = ("bfloat16", "float16", "float32")
SEEDS = range(2)
OPTIONS: dict[str, int | float | str | bool] = {"tokens": 48, "steps": 3}
SCALE = 1.05
"""What the derivative of one activation is multiplied by."""


def row(folder: str, kind: str, dtype: str, seed: int, planted: int | None) -> dict[str, Any]:
    """One model's training: verdicts, the worst layer by its own tolerance, who was blamed."""
    plugin = () if planted is None else (f"planted-fault:seed={planted}:gradient={SCALE}",)
    request = RunRequest(Observation.TRAINING, "cpu", folder, dtype=dtype, custom_operators=plugin, options=OPTIONS)
    noun = observe(request)
    assert isinstance(noun, TrainingObserved)
    judged = judge(request, RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, None), load)
    lines = [limits.backward_line(error, dtype) for error in noun.backward]
    return {
        "architecture": kind,
        "dtype": dtype,
        "seed": seed,
        "planted_layer": None if planted is None else planted_layer(planted, 4),
        "verdicts": {check.check: check.verdict.value for check in judged.checks},
        "worst_gradient_of_its_tolerance": max((line.measured or 0.0) / line.tolerance for line in lines),
        "whole_gradient_of_its_tolerance": (judged.checks[0].measured or 0.0) / (judged.checks[0].tolerance or 1.0),
        "gradient_cosine": noun.runs[0].gradients[0].target.cosine,
        "choices_forced": sum(run.choices_forced for run in noun.runs),
        "choices_differing": sum(run.choices_differing for run in noun.runs),
        "overflows": [None if run.scaling_target is None else run.scaling_target.overflows for run in noun.runs],
        "blamed": [culprit.module for culprit in judged.culprits],
        "reasons": [check.reason for check in judged.checks if check.verdict is not Verdict.PASS],
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_sound_models_pass_and_a_wrong_backward_is_named(tmp_path: Path, dtype: str) -> None:
    folders = {(kind, seed): dummy_model(kind, seed, dtype, tmp_path / f"{kind}-{seed}") for kind in KINDS for seed in SEEDS}
    sound = [row(folder, kind, dtype, seed, None) for (kind, seed), folder in folders.items()]
    wrong = [row(folders[kind, 0], kind, dtype, 0, planted) for kind in KINDS for planted in (3,)]
    write_series("training.json", "dayzero.proof.training/1", dtype, {"scale": SCALE, "sound": sound, "planted": wrong})
    assert all(set(one["verdicts"].values()) == {"pass"} for one in sound), [one["reasons"] for one in sound]
    for one in wrong:
        assert one["verdicts"]["fine_tune.training"] == "fail", one
        assert one["blamed"], one
        assert all(f".{one['planted_layer']}." in name and name.endswith("act_fn") for name in one["blamed"]), one
