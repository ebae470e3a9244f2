"""Small wheels made on the spot, as published packages would be: honest ones and hostile ones."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TORCH_NPU_TABLE = """\
backend: NPU
cpp_namespace: at_npu::native
autograd:
- func: _thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates) -> (Tensor, Tensor)
  impl_ns: op_api
custom:
- exposed: true
  func: npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
  impl_ns: op_api
- func: npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, int k_group=1, int group_count=1) -> (Tensor, Tensor)
  impl_ns: op_api
- func: npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, int? x1_dtype=None, int[]? group_sizes=None) -> Tensor
  impl_ns: op_api
- func: npu_rotated_iou(Tensor self, Tensor query_boxes, bool trans=False) -> Tensor
  impl_ns: acl_op
symint:
- as_strided_
- func: embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1) -> Tensor
  impl_ns: acl_op, op_api
supported:
- mm
- add.Tensor
- func: gelu.out(Tensor self, *, str approximate='none', Tensor(a!) out) -> Tensor(a!)
  impl_ns: acl_op, op_api
- func: cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)
  impl_ns: acl_op
- npu_rms_norm
"""
"""Entries in the form of torch-npu 2.14.0's npu_native_functions_by_codegen.yaml."""

FLAG_GEMS = {
    "flag_gems/__init__.py": """\
from flag_gems.ops import *
raise RuntimeError("a package that is read must not run")
_FULL_CONFIG = (
    ("_grouped_mm", group_mm),
    ("add.Tensor", add),
    ("allclose", allclose),
    ("nll_loss2d_forward", nll_loss2d),
    ("sort", sort),
    ("_to_copy", to_copy, lambda: version.parse(torch.__version__) >= version.parse("2.4")),
)
""",
    "flag_gems/fused/__init__.py": '__all__ = ["silu_and_mul", "grouped_topk"]\n',
    "flag_gems/ops/__init__.py": '__all__ = ["add", "group_mm", "rms_norm"]\n',
    "flag_gems/runtime/backend/_ascend/__init__.py": 'CUSTOMIZED_UNUSED_OPS = ("sort",)\n',
    "flag_gems/runtime/backend/_ascend/ops/__init__.py": '__all__ = ["add"]\n',
    "flag_gems/runtime/backend/_cambricon/__init__.py": "CUSTOMIZED_UNUSED_OPS = ()\n",
    "flag_gems/runtime/backend/_cambricon/op_black_list.yaml": """\
unsupported_operators:
  - name: allclose
    reason: "All dtypes failed"
  - name: grouped_topk
    reason: "All dtypes failed"
  - name: nll_loss2d
    reason: "Partial dtypes failed(BF16)"
  - name: get_scheduler_metadata
    reason: "All dtypes failed"
summary:
  total_unsupported: 4
""",
}

VLLM = {
    "vllm/model_executor/models/registry.py": """\
_TEXT_GENERATION_MODELS = {
    "DeepseekV3ForCausalLM": ("deepseek_v2", "DeepseekV3ForCausalLM"),
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
}
_PREVIOUSLY_SUPPORTED_MODELS = {"Phi3SmallForCausalLM": "0.9.2"}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}
""",
    "vllm/model_executor/layers/quantization/__init__.py": """\
QuantizationMethods = Literal["fp8", "awq", "gptq"]
QUANTIZATION_METHODS: list[str] = list(get_args(QuantizationMethods))
""",
    "vllm/v1/attention/backends/registry.py": """\
class AttentionBackendEnum(Enum, metaclass=_Meta):
    FLASHMLA = "vllm.v1.attention.backends.mla.flashmla.FlashMLABackend"
    SOMETHING_NEW = ""
""",
}

VLLM_PLUGIN = {
    "vllm_acme-1.0.dist-info/entry_points.txt": "[vllm.platform_plugins]\nacme = vllm_acme:register\n",
    "vllm_acme/__init__.py": """\
def register_models():
    ModelRegistry.register_model("GlmForCausalLM", "vllm_acme.glm:GlmForCausalLM")
    for name in COMPUTED:
        ModelRegistry.register_model(name, "vllm_acme.others:" + name)
@register_quantization_config("acme_int4")
class AcmeConfig: ...
""",
    "vllm/elsewhere.py": 'ModelRegistry.register_model("NotOfThePlugin", "x:y")\n',
}


def wheel(folder: Path, name: str, version: str, members: Mapping[str, str], needs: Sequence[str] = ()) -> Path:
    """A wheel of that name, version and content, with what it needs."""
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {one}\n" for one in needs)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        everything = {
            **members,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}\nName: not-me\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        for member, text in everything.items():
            file.writestr(zipfile.ZipInfo(member), text, zipfile.ZIP_DEFLATED)  # of one date: the same bytes each time
    return path


def torch_npu(folder: Path, version: str = "2.14.0", table: str = TORCH_NPU_TABLE) -> Path:
    """A wheel with torch-npu's tables."""
    return wheel(folder, "torch-npu", version, {"torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml": table})


def publish(index: Path, path: Path, sha256: str | None = None, *, package: str) -> None:
    """List a file under its project in a simple index, with its sha256 or a lie."""
    stated = sha256 or hashlib.sha256(path.read_bytes()).hexdigest()
    page = index / package / "index.html"
    page.parent.mkdir(exist_ok=True)
    known = page.read_text() if page.exists() else "<!DOCTYPE html><html><body>"
    page.write_text(f'{known}<a href="{path.as_uri()}#sha256={stated}">{path.name}</a>')
