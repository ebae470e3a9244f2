"""Operators over drawn inputs on the simulated device: `python sampling_scenes.py SCENE ARGUMENTS…` prints a JSON document."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.call_sampler import CallSampler, Key
from dayzero.adapters.runners.observe_operators import module_paths
from dayzero.adapters.runners.operator_capture import OperatorCapture
from dayzero.adapters.runners.placing import placed
from dayzero.adapters.simulated import kernels
from dayzero.domain.observations import OperatorErrors
from dayzero.domain.platforms import Device
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check
from dayzero.registry import device_plugin
from dayzero.stages.judging.sampled import distributions_check, fact_of
from tiny_families import FAMILIES

TOKENS = 9
Known = dict[Key, CallFact]


def silu_that_saturates(values: torch.Tensor) -> torch.Tensor:
    """Right up to 60."""
    return torch.ops.aten.silu.default(values.clamp(max=60.0))


def exp_that_saturates(values: torch.Tensor) -> torch.Tensor:
    """Right up to 30."""
    return torch.ops.aten.exp.default(values.clamp(max=30.0))


def rsqrt_without_infinity(values: torch.Tensor) -> torch.Tensor:
    """The reciprocal root of zero is a large number."""
    return torch.where(values == 0, torch.full_like(values, 1e15), torch.ops.aten.rsqrt.default(values))


def product_that_flushes(left: torch.Tensor, right: torch.Tensor | float) -> torch.Tensor:
    """Results below the smallest normal number become zero."""
    made = torch.ops.aten.mul.Tensor(left, right)
    return torch.where(made.abs() < torch.finfo(made.dtype).tiny, torch.zeros_like(made), made)


def softmax_of_large(values: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Without taking the largest away first."""
    powers = torch.ops.aten.exp.default(values.to(torch.float32))
    return torch.ops.aten.div.Tensor(powers, powers.sum(dim, keepdim=True)).to(values.dtype)


FAULTS: dict[str, tuple[Any, Callable[..., torch.Tensor]]] = {
    "silu": (torch.ops.aten.silu.default, silu_that_saturates),
    "exp": (torch.ops.aten.exp.default, exp_that_saturates),
    "rsqrt": (torch.ops.aten.rsqrt.default, rsqrt_without_infinity),
    "flush": (torch.ops.aten.mul.Tensor, product_that_flushes),
    "softmax": (torch.ops.aten._softmax.default, softmax_of_large),
}
FEWER: dict[str, dict[str, int]] = {
    "llama": {"num_hidden_layers": 1}, "qwen3_moe": {"num_hidden_layers": 1}, "falcon_h1": {"num_hidden_layers": 1},
    "gemma2": {"num_hidden_layers": 2}, "deepseek_v3": {"num_hidden_layers": 2}, "qwen3_next": {"num_hidden_layers": 2},
    "jamba": {"num_hidden_layers": 4},
}  # fmt: skip
"""Layers that have every distinct call; the others only repeat them."""


def run(family: str, dtype: str, seed: int, known: Known) -> tuple[OperatorErrors, Check]:
    """A prefill and one decode step of a tiny model on the device, every distinct call over all distributions."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **{**FAMILIES[family], **FEWER[family]})
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), attn_implementation="eager")
    device = torch.device("simnpu", 0)
    model = placed(model.eval().requires_grad_(False), device)
    ids = torch.arange(3, 3 + TOKENS).unsqueeze(0).to(device)
    sampler = CallSampler(device, known, seed)
    with module_paths(model) as stack, torch.no_grad():
        capture = OperatorCapture(TOKENS, lambda: stack[-1], {}, (), sampler)
        with capture:
            cache = model(ids, use_cache=True).past_key_values
            model(ids[:, -1:], use_cache=True, past_key_values=cache)
    rows = tuple(capture.seen.values())
    observed = OperatorErrors(
        dtype, "eager on simnpu", TOKENS, rows, (), 0.0, tuple(sampler.found), tuple(sampler.used), dict(sampler.left_out)
    )
    return observed, distributions_check(observed, "tp1")[0]


def told(family: str, dtype: str, seed: int, known: Known | None = None) -> dict[str, Any]:
    """One run, judged; what equals the host's kernel is added to `known`, for another seed would only show it again."""
    observed, check = run(family, dtype, seed, known or {})
    if known is not None:
        facts = map(fact_of, observed.samples)
        known.update({fact.key: fact for fact in facts if fact.identical == fact.samples > 0})
    return {
        "family": family, "dtype": dtype, "seed": seed, "verdict": check.verdict.value, "reason": check.reason,
        "numbers": dict(check.numbers), "calls": len(observed.samples),
    }  # fmt: skip


def clean(families: str, dtypes: str, seeds: str) -> list[dict[str, Any]]:
    """Sound runs: every family in every dtype with every seed."""
    rows = []
    for family, dtype in itertools.product(families.split(","), dtypes.split(",")):
        known: Known = {}
        rows += [told(family, dtype, int(seed), known) for seed in seeds.split(",")]
    return rows


def planted(faults: str, family: str, dtypes: str, seed: str = "0") -> list[dict[str, Any]]:
    """The same on a device with one faulty kernel at a time."""
    rows = []
    for fault, dtype in itertools.product(faults.split(","), dtypes.split(",")):
        operator, kernel = FAULTS[fault]
        kernels.KERNELS[operator] = kernel
        try:
            rows.append({"fault": fault, "operator": str(operator), **told(family, dtype, int(seed))})
        finally:
            del kernels.KERNELS[operator]
    return rows


SHOWS = {"silu": "large magnitude", "exp": "large magnitude", "rsqrt": "exact zeros", "softmax": "large magnitude",
         "flush": "results below the smallest normal number became zero"}  # fmt: skip
"""The inputs on which each fault shows; of one that shows on many, what it does."""


def is_found(row: dict[str, Any]) -> bool:
    """Whether a planted fault is named with its operator and the inputs it shows on; flushing only fails in float16."""
    named = row["operator"] in row["reason"]
    if row["fault"] == "flush" and row["dtype"] != "float16":
        return named and row["verdict"] == "pass" and "subnormal numbers are flushed to zero" in row["reason"]
    return named and row["verdict"] == "fail" and SHOWS[row["fault"]] in row["reason"]


def scene(name: str, *arguments: str, timeout_s: float = 1800.0) -> list[dict[str, Any]]:
    """A scene in a process of its own, for a process has one such device."""
    command = [sys.executable, __file__, name, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert run.returncode == 0, run.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    loading.quiet()
    device_plugin("simnpu").install(Device("simnpu", dtypes=("bfloat16", "float16", "float32")))
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
