"""Operators really run: right ones pass, a wrong one is found, and one that kills its process is an error of its own."""

import sys
from pathlib import Path

import pytest

from dayzero.adapters.operators.collectives import probe_collectives
from dayzero.adapters.operators.device import probe_operators
from dayzero.domain.manifests import DtypeFact
from dayzero.domain.platforms import Device
from dayzero.domain.probing import ProbeOutcome
from dayzero.domain.verdict import Verdict
from dayzero.errors import MeasurementError
from dayzero.stages.platforms.probing import judge_probe

pytestmark = pytest.mark.torch


def probed(
    *names: str, dtypes: tuple[str, ...] = ("float32", "bfloat16", "int64"), **more: object
) -> dict[tuple[str, str], DtypeFact]:
    found = probe_operators(names, device="cpu", dtypes=dtypes, **more)  # type: ignore[arg-type]
    assert found.skipped == ()
    return {(probe.operator, probe.dtype): judge_probe(probe) for probe in found.found}


def test_operators_of_every_kind() -> None:
    facts = probed(
        "aten.mm.default", "aten.add_.Tensor", "aten.cat.default", "aten.arange.default", "aten.native_layer_norm.default",
        "aten.embedding.default", "aten.bernoulli.default", "aten.empty.memory_format", "aten.silu.default",
        "aten.scaled_dot_product_attention.default", "aten.no_such.default",
    )  # fmt: skip
    right = ("mm", "add_", "cat", "arange", "native_layer_norm", "embedding", "silu", "scaled_dot_product_attention")
    for name, fact in facts.items():
        if name[0].split(".")[1] in right and name[1] != "int64":
            assert fact.verdict is Verdict.PASS and fact.samples >= 6 and fact.time_s, (name, fact)
    assert facts["aten.silu.default", "int64"].verdict is Verdict.ERROR
    assert facts["aten.mm.default", "int64"].verdict is Verdict.PASS
    assert "random numbers" in (facts["aten.bernoulli.default", "float32"].why or "")
    assert "whatever memory held" in (facts["aten.empty.memory_format", "float32"].why or "")
    assert facts["aten.no_such.default", "float32"].why == "torch has no such operator"


def test_an_operator_that_takes_too_long_or_too_much_does_not_end_the_others() -> None:
    found = probe_operators(
        ["aten.mm.default", "aten.sin.default", "aten.cos.default"],
        device="cpu",
        dtypes=("float32",),
        operator_timeout_s=0.0001,
    )
    assert {probe.outcome for probe in found.found} <= {ProbeOutcome.KILLED, ProbeOutcome.RAN} and len(found.found) == 3
    assert found.restarts == sum(probe.outcome is ProbeOutcome.KILLED for probe in found.found)


def test_time_that_is_up_leaves_the_rest_named() -> None:
    found = probe_operators(["aten.mm.default", "aten.sin.default"], device="cpu", dtypes=("float32",), budget_s=0.001)
    assert (found.found, found.skipped) == ((), ("aten.mm.default", "aten.sin.default"))


def test_a_device_that_is_not_here_is_said_to_be_so() -> None:
    with pytest.raises(MeasurementError, match="probing on hpu cannot begin"):
        probe_operators(["aten.mm.default"], device="hpu", dtypes=("float32",))


CRASHING = """\
import os, runpy, sys
import torch
from dayzero.adapters.operators import running
probe = running.Prober.probe
def crashing(self, name):
    if name == "aten.sin.default":
        os.abort()
    if name == "aten.cos.default":
        raise SystemExit(3)
    return probe(self, name)
running.Prober.probe = crashing
sys.argv = sys.argv[3:]
runpy.run_module("dayzero.adapters.operators.probe_child", run_name="__main__", alter_sys=True)
"""


def test_a_crash_is_an_error_of_that_operator_only(tmp_path: Path) -> None:
    python = tmp_path / "python"
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING, encoding="utf-8")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    names = ("aten.mm.default", "aten.sin.default", "aten.cos.default", "aten.exp.default")
    found = probe_operators(names, device="cpu", dtypes=("float32",), python=str(python))
    outcome = {probe.operator: probe for probe in found.found}
    assert [outcome[name].outcome for name in names] == [
        ProbeOutcome.RAN,
        ProbeOutcome.KILLED,
        ProbeOutcome.KILLED,
        ProbeOutcome.RAN,
    ]
    assert "SIGABRT" in (outcome["aten.sin.default"].why or "") and "status 3" in (outcome["aten.cos.default"].why or "")
    assert found.restarts == 2


WRONG = """\
import runpy, sys
import torch
library = torch.library.Library("aten", "IMPL")
library.impl("mm", lambda a, b: torch.bmm(a[None], b[None])[0] * 1.02, "CPU", allow_override=True)
sys.argv = sys.argv[3:]
runpy.run_module("dayzero.adapters.operators.probe_child", run_name="__main__", alter_sys=True)
"""


def test_a_kernel_that_is_wrong_in_one_dtype_is_found(tmp_path: Path) -> None:
    python, script = tmp_path / "python", tmp_path / "wrong.py"
    wrong = WRONG.replace("* 1.02", "* (1.02 if a.dtype is torch.float32 else 1)")
    script.write_text(wrong, encoding="utf-8")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore {script} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    facts = probed("aten.mm.default", dtypes=("float32", "bfloat16"), python=str(python))
    bad = facts["aten.mm.default", "float32"]
    assert bad.verdict is Verdict.FAIL and bad.worst_error is not None and 0.019 < bad.worst_error < 0.021
    assert facts["aten.mm.default", "bfloat16"].verdict is Verdict.PASS


def test_collectives_by_size() -> None:
    facts = probe_collectives(device="cpu", backend="gloo", ranks=2)
    assert {fact.operation for fact in facts} >= {"all_reduce", "all_gather", "broadcast", "send_receive"}
    assert all(fact.time_s > 0 and fact.bytes_per_s > 0 and fact.ranks == 2 for fact in facts)
    assert len({fact.size_bytes for fact in facts}) == 6
    assert probe_collectives(device="cpu", backend="gloo", ranks=1) == ()
    with pytest.raises(MeasurementError, match="collectives could not be measured"):
        probe_collectives(device="cpu", backend="nccl", ranks=2)


def test_a_device_that_a_plugin_brings() -> None:
    from dayzero.adapters.profiles.load import load_profiles

    device = load_profiles(None)["sim-npu"].device
    assert isinstance(device, Device)
    masked = sorted(device.masked_operators)
    assert masked
    names = ["aten.mm.default", "aten.scaled_dot_product_attention.default", "aten.topk.default"]
    assert set(names[1:]) <= set(masked)
    found = probe_operators(names, device=device.torch_device, dtypes=("float32",), plugged=device)
    facts = {probe.operator: judge_probe(probe) for probe in found.found}
    assert facts["aten.mm.default"].verdict is Verdict.PASS
    assert all(facts[name].verdict is Verdict.ERROR and "masked" in (facts[name].why or "") for name in names[1:])
