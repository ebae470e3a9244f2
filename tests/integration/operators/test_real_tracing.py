"""Real architectures through the real modelling library, and their coverage by the torch that is installed."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import pytest

from dayzero.adapters.operators.library import SubprocessLibrary
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.domain.operators import CoverageKind, OperatorInventory, OperatorManifest, Phase, Trace, TraceOptions
from dayzero.errors import BlockedError, DependencyError, MeasurementError, NotShardedError
from dayzero.stages.coverage.covering import cover, with_exclusions
from dayzero.stages.inventory.taking import inventory_of
from dayzero.stages.inventory.taxonomy import parse_taxonomy
from dayzero.stages.structure.reading import read_spec

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")

TAXONOMY = parse_taxonomy(files("dayzero.platforms").joinpath("taxonomy.toml").read_text(encoding="utf-8"))
CONFIGS = Path(__file__).parents[2] / "golden" / "configs"


@lru_cache
def traced(name: str, fold: bool = True) -> Trace:
    options = TraceOptions(degrees=(2, 8) if name == "tiny_llama" else ())
    return SubprocessTracer(fold_layers=fold).trace((CONFIGS / f"{name}.json").read_bytes(), timeout_s=200, options=options)


@lru_cache
def cpu() -> OperatorManifest:
    return SubprocessLibrary().manifest()


def inventory(trace: Trace) -> OperatorInventory:
    return OperatorInventory("X", (), trace.uses, trace.library, symbols=trace.symbols, decompositions=trace.decompositions)


def only(manifest: OperatorManifest, names: set[str], made_of: dict[str, tuple[str, ...]]) -> OperatorManifest:
    """The manifest's part that those operators can reach: what the whole one says of them, in less time."""
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
    return sum(use.flops or 0 for use in trace.uses if use.phase is phase and use.part_of is None)


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
    assert {use.phase for use in sdpa} == set(Phase) and {use.count for use in sdpa} == {layers}
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
    assert {use.phase for use in traced("tiny_bert").uses} == {Phase.PREFILL, Phase.TRAIN}


def test_a_training_step_by_hand() -> None:
    """Three products where inference has one: forward, gradient of the input and of the weights, over all logits."""
    trace, names = traced("tiny_llama"), {use.name for use in traced("tiny_llama").uses if use.phase is Phase.TRAIN}
    products = ("aten.mm.default", "aten.bmm.default")
    whole = [use for use in trace.uses if use.name in products and use.part_of is None]
    # A prefill computes the logits of its last token alone.
    forward = sum(use.flops or 0 for use in whole if use.phase is Phase.PREFILL) + 2 * 261 * 64 * 256
    trained = sum(use.flops or 0 for use in whole if use.phase is Phase.TRAIN)
    # The first layer's input has a gradient, the embedding's look-up is no product.
    assert trained == 3 * forward
    attention = "aten.scaled_dot_product_attention.default"
    assert {f"{attention}.backward", "aten.cross_entropy_loss.default", "aten.embedding_dense_backward.default"} <= names
    by_name = {use.name: use for use in trace.uses if use.phase is Phase.TRAIN and "attention" in use.name}
    assert by_name[f"{attention}.backward"].flops == 2 * (by_name[attention].flops or 0)
    gradients = [use for use in trace.uses if use.name == "aten.silu_backward.default"]
    assert {use.modules for use in gradients} == {("model.layers.*.mlp.act_fn",)} or gradients[0].part_of == "hub.SiLU.backward"


def test_kernels_that_the_code_names_stand_above_their_parts() -> None:
    uses = traced("tiny_llama").uses
    norms = [use for use in uses if use.name == "hub.RMSNorm" and use.phase is Phase.PREFILL]
    layers = json.loads((CONFIGS / "tiny_llama.json").read_text())["num_hidden_layers"]
    assert [use.count for use in norms] == [2 * layers + 1] and norms[0].part_of is None
    assert {use.part_of for use in uses if use.name == "aten.rsqrt.default"} == {"hub.RMSNorm"}


def test_collectives_of_a_sharded_run() -> None:
    """Two all-reduces a layer, one for the embedding, and the logits gathered; where heads do not divide, nothing and why."""
    trace = traced("tiny_llama")
    config = json.loads((CONFIGS / "tiny_llama.json").read_text())
    prefill = {use.name: use for use in trace.collectives if use.phase is Phase.PREFILL and use.tp == 2}
    reduce = prefill["all_reduce"]
    assert reduce.count == 2 * config["num_hidden_layers"] + 1 and reduce.message_bytes == reduce.count * 262 * 64 * 2
    assert prefill["all_gather"].count == 1 and {use.tp for use in trace.collectives} == {2}
    missing = next(finding for finding in trace.findings if finding.code == "trace.no_collectives")
    assert missing.numbers == {"tp": 8} and "does not divide by 8" in missing.message


def test_one_rank_of_a_sharded_model() -> None:
    options = TraceOptions(tp=2, degrees=(), train=False)
    config = (CONFIGS / "tiny_llama.json").read_bytes()
    rank = SubprocessTracer().trace(config, timeout_s=200, options=options)
    whole = traced("tiny_llama")
    assert rank.tp == 2 and {use.tp for use in rank.collectives} == {2}
    assert 2 * flops(rank, Phase.DECODE) == flops(whole, Phase.DECODE)
    with pytest.raises(NotShardedError, match="gpt2 cannot be traced sharded"):
        SubprocessTracer().trace(json.dumps({**json.loads(config), "model_type": "gpt2"}).encode(), timeout_s=200,
                                 options=replace(options, tp=3))  # fmt: skip


def test_decompositions_are_taken_on_the_model_s_own_arguments() -> None:
    made = {rule.name: set(rule.into) for rule in traced("tiny_llama").decompositions}
    assert {"aten.mul.Tensor", "aten.sigmoid.default"} <= made["aten.silu.default"]
    assert "aten.mm.default" not in made and "aten.embedding_dense_backward.default" in made


def test_compilation_tells_launches_and_that_nothing_breaks() -> None:
    options = TraceOptions(degrees=(), train=False, compiled=True)
    config = (CONFIGS / "tiny_qwen3_moe.json").read_bytes()
    (whole,) = SubprocessTracer().trace(config, timeout_s=280, options=options).compiled
    assert (whole.graphs, whole.breaks, whole.exported) == (1, (), True), whole.why
    assert whole.compiled_launches is not None and 0 < whole.compiled_launches < (whole.eager_launches or 0)


BREAKING = """
import sys
from pathlib import Path
from dayzero.adapters.trace.building import build
from dayzero.adapters.trace.compiling import compiled_graphs
from dayzero.adapters.trace.composites import KernelScopes
from dayzero.adapters.trace.dispatching import Memo
text = Path(sys.argv[1]).read_text()
(found,) = compiled_graphs(text, build(text, KernelScopes(), Memo()), experts="eager")
print([(one.reason, one.file, one.line) for one in found.breaks], found.compiled_launches)
"""


def test_a_loop_over_experts_breaks_the_graph_at_a_line_of_the_code() -> None:
    command = [sys.executable, "-W", "ignore", "-c", BREAKING, str(CONFIGS / "tiny_qwen3_moe.json")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout.strip().splitlines()[-1]
    assert "nonzero" in said and "modeling_qwen3_moe.py" in said and said.endswith("None")


@pytest.mark.parametrize("name", ["tiny_deepseek_v3", "tiny_llama"])
def test_cpu_covers_everything_and_every_removed_operator_shows(name: str) -> None:
    """Taken out or excluded, an operator is a gap, or it is decomposed into named parts that are covered themselves."""
    needed = inventory(traced(name))
    whole = cover(needed, cpu())
    assert whole.gaps == () and whole.graph_coverage == 1.0
    made_of = {rule.name: rule.into for rule in (*cpu().decompositions, *needed.decompositions)}
    offered = {use.name for use in needed.graph if use.name.startswith("aten.") and not use.name.endswith(".backward")}
    names, composites = sorted(offered), {use.part_of for use in needed.graph}
    whole_manifest = only(cpu(), set(names), made_of)
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
            parts = {use.name for use in needed.graph if use.part_of == operator} or made_of[operator]
            assert all(part in rows[0].why for part in parts)
    assert gaps >= 2 * len(offered - set(made_of) - composites) > 40


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
    with pytest.raises(
        BlockedError, match=r"no_such_type is unknown to transformers \d.*Add a stack whose transformers release"
    ):
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
        '#!/bin/sh\nprintf \'{"trace": null, "refusal": "not_installed", "message": "No module named torch"}\' > "$4"\n'
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


def test_a_warm_child_takes_the_next_job_or_ends_unasked(tmp_path: Path) -> None:
    fake, started = tmp_path / "python", tmp_path / "started"
    fake.write_text(
        f"#!/bin/sh\necho $$ >> {started}\ngrep -q llama || exit 3\n"
        'printf \'{"trace": null, "refusal": "failed", "message": "no job like it"}\' > "$4"\n'
    )
    fake.chmod(0o755)
    tracer = SubprocessTracer(python=str(fake))
    tracer.warm()
    tracer.warm()
    with pytest.raises(MeasurementError, match="no job like it"):
        tracer.trace(b'{"model_type": "llama"}', timeout_s=20)
    assert len(started.read_text().split()) == 1
    tracer.warm()
    tracer.end()
    tracer.end()
    assert not [pid for pid in started.read_text().split() if Path(f"/proc/{pid}").exists()]


def test_the_child_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("DAYZERO_DATABASE_URL", "postgresql://secret")
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nenv >&2\nexit 9\n")
    fake.chmod(0o755)
    with pytest.raises(MeasurementError) as caught:
        SubprocessTracer(python=str(fake)).trace(b'{"model_type": "llama"}', timeout_s=20)
    assert "secret" not in str(caught.value) and "HF_HUB_OFFLINE=1" in str(caught.value)
