"""Real architectures through the real modelling library, and their coverage by the torch that is installed."""

import json
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import pytest

from dayzero.adapters.operators.library import SubprocessLibrary
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.domain.operators import CoverageKind, OperatorInventory, OperatorManifest, Phase, Trace
from dayzero.errors import BlockedError, DependencyError, MeasurementError
from dayzero.stages.coverage import cover, with_exclusions
from dayzero.stages.inventory import inventory_of
from dayzero.stages.structure import read_spec
from dayzero.stages.taxonomy import parse_taxonomy

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")

TAXONOMY = parse_taxonomy(files("dayzero.platforms").joinpath("taxonomy.toml").read_text(encoding="utf-8"))
CONFIGS = Path(__file__).parents[2] / "golden" / "configs"


@lru_cache
def traced(name: str, fold: bool = True) -> Trace:
    return SubprocessTracer(fold_layers=fold).trace((CONFIGS / f"{name}.json").read_bytes(), timeout_s=200)


@lru_cache
def cpu() -> OperatorManifest:
    return SubprocessLibrary().manifest()


def inventory(trace: Trace) -> OperatorInventory:
    return OperatorInventory("X", (), trace.uses, trace.library)


def only(manifest: OperatorManifest, names: set[str]) -> OperatorManifest:
    """The manifest's part that those operators can reach: what the whole one says of them, in less time."""
    made_of = {rule.name: rule.into for rule in manifest.decompositions}
    reached, new = set(), set(names)
    while new:
        reached |= new
        new = {part for name in new for part in made_of.get(name, ())} - reached
    return replace(
        manifest,
        operators=tuple(support for support in manifest.operators if support.name in reached),
        decompositions=tuple(rule for rule in manifest.decompositions if rule.name in reached),
    )


def flops(trace: Trace, phase: Phase) -> int:
    return sum(use.flops or 0 for use in trace.uses if use.phase is phase)


@pytest.mark.parametrize("name", ["tiny_deepseek_v3", "tiny_gemma2", "tiny_qwen3_moe", "tiny_mixtral_float32"])
def test_folded_layers_count_exactly_as_all_layers(name: str) -> None:
    assert traced(name).uses == traced(name, False).uses


def test_a_dense_model_by_hand() -> None:
    trace = traced("tiny_llama")
    config = json.loads((CONFIGS / "tiny_llama.json").read_text())
    hidden, inner, vocabulary, layers = 64, 128, 256, config["num_hidden_layers"]
    weights = layers * (hidden * hidden * 2 + hidden * 32 * 2 + 3 * hidden * inner) + vocabulary * hidden
    assert sum(trace.parameters_by_component.values()) == weights + vocabulary * hidden + (2 * layers + 1) * hidden
    attention = 2 * 4 * 263 * (16 + 16) * layers
    assert flops(trace, Phase.DECODE) - 2 * weights - attention == pytest.approx(0, abs=2 * weights * 0.02)
    sdpa = [use for use in trace.uses if use.name == "aten.scaled_dot_product_attention.default"]
    assert {use.phase for use in sdpa} == {Phase.PREFILL, Phase.DECODE} and {use.count for use in sdpa} == {layers}
    assert {use.modules for use in sdpa} == {("model.layers.*.self_attn",)}
    assert all(set(use.dtypes) <= {"bfloat16", "float32", "int64", "bool"} for use in trace.uses)
    assert {"S" in use.shape_class for use in sdpa if use.phase is Phase.DECODE} == {True}


def test_deepseek_v3_at_its_real_size() -> None:
    """671B parameters (its paper) on a machine that could never hold them; grouped products in 58 of 61 layers."""
    trace = traced("deepseek_v3_full")
    assert sum(trace.parameters_by_component.values()) == pytest.approx(671.026e9, rel=1e-5)
    grouped = [use for use in trace.uses if use.name == "aten._grouped_mm.default" and use.phase is Phase.PREFILL]
    assert sum(use.count for use in grouped) == 2 * 58
    assert sum(use.flops or 0 for use in grouped) == 58 * 262 * 8 * 2 * 3 * 7168 * 2048
    assert {finding.code for finding in trace.findings} >= {"trace.own_code", "trace.unquantized", "trace.workload"}


def test_an_encoder_has_no_decode() -> None:
    assert {use.phase for use in traced("tiny_bert").uses} == {Phase.PREFILL}


@pytest.mark.parametrize("name", ["tiny_deepseek_v3", "tiny_llama"])
def test_cpu_covers_everything_and_every_removed_operator_shows(name: str) -> None:
    """Taken out or excluded, an operator is a gap, or it is decomposed into named parts that are covered themselves."""
    needed = inventory(traced(name))
    whole = cover(needed, cpu())
    assert whole.gaps == () and whole.graph_coverage == 1.0
    made_of = {rule.name: rule.into for rule in cpu().decompositions}
    names = sorted({use.name for use in needed.graph})
    whole_manifest = only(cpu(), set(names))
    gaps = 0
    for operator in names:
        kept = tuple(support for support in whole_manifest.operators if support.name != operator)
        for manifest in (replace(whole_manifest, operators=kept), with_exclusions(whole_manifest, {operator: "does not work"})):
            report = cover(needed, manifest)
            rows = [row for row in report.operators if row.operator == operator]
            if operator in {gap.operator for gap in report.gaps}:
                gaps += 1
                assert report.graph_coverage is not None and report.graph_coverage < 1
                continue
            assert {row.kind for row in rows} == {CoverageKind.DECOMPOSED}
            assert all(part in rows[0].why for part in made_of[operator])
    assert gaps > len(names)


@pytest.mark.parametrize("name", ["tiny_deepseek_v3", "tiny_llama", "tiny_qwen3_moe", "deepseek_v3_full"])
def test_specification_and_trace_agree(name: str) -> None:
    """Two independent readings of one configuration: ours, and what the library builds and runs."""
    spec = read_spec((CONFIGS / f"{name}.json").read_bytes(), None, known=True)
    found = inventory_of(spec, traced(name), TAXONOMY)
    assert [finding.code for finding in found.findings if finding.code.startswith("inventory.")] == []
    assert found.kernels and {kernel.name for kernel in found.kernels} <= TAXONOMY.names
    assert sum(traced(name).parameters_by_component.values()) == spec.parameters.total_language
    grouped = sum(use.count for use in found.graph if use.name == "aten._grouped_mm.default" and use.phase is Phase.DECODE)
    assert grouped == 2 * sum(kernel.layers for kernel in found.kernels if kernel.name == "moe.routed")


def test_a_wrong_specification_is_noticed() -> None:
    dense = read_spec((CONFIGS / "tiny_llama.json").read_bytes(), None, known=True)
    codes = {(f.code, f.subject) for f in inventory_of(dense, traced("tiny_deepseek_v3"), TAXONOMY).findings}
    assert {("inventory.traced_not_predicted", "moe"), ("inventory.parameters_differ", "parameters")} <= codes


def test_an_absurd_configuration_ends_in_time() -> None:
    config = json.loads((CONFIGS / "tiny_llama.json").read_text()) | {"num_hidden_layers": 10_000_000}
    with pytest.raises(MeasurementError, match="llama"):
        SubprocessTracer().trace(json.dumps(config).encode(), timeout_s=20)


def test_the_probe_tells_kernels_from_composites() -> None:
    offered = {support.name: support.kind.value for support in cpu().operators}
    assert offered["aten.mm.default"] == "native" and offered["aten.scaled_dot_product_attention.default"] == "composite"
    made_of = {rule.name: set(rule.into) for rule in cpu().decompositions}
    assert made_of["aten.silu.default"] == {"aten.sigmoid.default", "aten.mul.Tensor"}
    assert {"aten.mm.default", "aten.add.Tensor"} <= made_of["aten.addmm.default"]
    assert all(name.startswith("aten.") for parts in made_of.values() for name in parts)


def test_an_unknown_architecture_is_blocked_with_its_remedy() -> None:
    with pytest.raises(BlockedError, match=r"no_such_type is unknown to transformers \d.*Install a transformers release"):
        SubprocessTracer().trace(b'{"model_type": "no_such_type"}', timeout_s=60)
    with pytest.raises(BlockedError, match=r"brings its own code.*DAYZERO_ALLOW_REMOTE_CODE"):
        SubprocessTracer().trace(b'{"model_type": "no_such_type", "auto_map": {"AutoConfig": "c.C"}}', timeout_s=60)


def test_a_contradictory_configuration_is_an_error_with_its_reason() -> None:
    config = json.loads((CONFIGS / "tiny_llama.json").read_text()) | {"hidden_size": "many"}
    with pytest.raises(Exception, match="llama") as caught:
        SubprocessTracer().trace(json.dumps(config).encode(), timeout_s=100)
    assert type(caught.value).__name__ in ("BadInputError", "MeasurementError")


def test_a_python_without_torch_names_the_extra(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(
        '#!/bin/sh\nprintf \'{"trace": null, "refusal": "not_installed", "message": "No module named torch"}\' > "$5"\n'
    )
    fake.chmod(0o755)
    with pytest.raises(DependencyError, match=r"pip install 'dayzero\[worker\]'"):
        SubprocessTracer(python=str(fake)).trace(b'{"model_type": "llama"}', timeout_s=20)


def test_a_child_that_dies_or_hangs_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho out of everything >&2\nexit 9\n")
    fake.chmod(0o755)
    with pytest.raises(MeasurementError, match=r"exit status 9.*\nout of everything"):
        SubprocessTracer(python=str(fake)).trace(b'{"model_type": "llama"}', timeout_s=20)
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(MeasurementError, match=r"longer than 0\.2 s"):
        SubprocessTracer(python=str(fake)).trace(b'{"model_type": "llama"}', timeout_s=0.2)


def test_the_child_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("DAYZERO_DATABASE_URL", "postgresql://secret")
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nenv >&2\nexit 9\n")
    fake.chmod(0o755)
    with pytest.raises(MeasurementError) as caught:
        SubprocessTracer(python=str(fake)).trace(b'{"model_type": "llama"}', timeout_s=20)
    assert "secret" not in str(caught.value) and "HF_HUB_OFFLINE=1" in str(caught.value)
