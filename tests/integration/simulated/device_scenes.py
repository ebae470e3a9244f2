"""Scenes on the simulated device: `python device_scenes.py SCENE` prints one JSON document."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as functional

from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.runners.placing import device_for
from dayzero.domain.platforms import Device
from dayzero.domain.runs import Observation, RunRequest
from dayzero.errors import BlockedError
from dayzero.registry import device_plugin

SMALL_BYTES = 10_000


def said(call: Callable[[], object]) -> str:
    """What a call raises, with its type; `nothing` when it ran."""
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def shipped() -> Device:
    device = load_profiles(None)["sim-npu"].device
    assert device is not None
    return device


def masked() -> dict[str, object]:
    """Every way to a masked kernel: by its function, its overloads, inference mode, autograd, and beneath other kernels."""
    device_plugin("simnpu").install(shipped())
    rows = torch.randn(4, 8, dtype=torch.bfloat16).to("simnpu")
    heads = rows.reshape(1, 4, 2, 4)
    weights = torch.randn(2, 8, 8, dtype=torch.bfloat16).to("simnpu")
    ends = torch.tensor([2, 4], dtype=torch.int32).to("simnpu")
    calls: dict[str, Callable[[], object]] = {
        "topk": lambda: torch.topk(rows, 2),
        "topk.values": lambda: torch.ops.aten.topk.values(rows, 2, values=rows.clone(), indices=rows.long()),
        "attention": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        "attention.for_cpu": lambda: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads),
        "attention.overrideable": lambda: torch.ops.aten._scaled_dot_product_fused_attention_overrideable(heads, heads, heads),
        "grouped": lambda: torch._grouped_mm(rows, weights, offs=ends),
    }
    with torch.inference_mode():
        inferred = {f"{name} in inference": said(call) for name, call in calls.items()}
    with torch.no_grad():
        plain = {name: said(call) for name, call in calls.items()}
    rows.requires_grad_()
    derived = {f"{name} with gradients": said(call) for name, call in calls.items() if name != "topk.values"}
    return {"raised": plain | inferred | derived, "executed": torch.simnpu.executed()}


def beneath() -> dict[str, object]:
    """A masked operator that another kernel calls beneath itself, or that a composite is made of."""
    reason = {"aten.index_select.default": "masked", "aten.bmm.default": "masked", "aten.sort.stable": "masked"}
    device_plugin("simnpu").install(Device("simnpu", dtypes=("float32",), masked_operators=reason))
    table, ids = torch.randn(5, 4).to("simnpu"), torch.tensor([1, 2]).to("simnpu")
    batches = torch.randn(2, 3, 3).to("simnpu")
    raised = {
        "embedding": said(lambda: functional.embedding(ids, table)),
        "matmul": said(lambda: batches @ batches),
        "argsort": said(lambda: torch.argsort(table)),
        "mm": said(lambda: batches[0] @ batches[1]),
    }
    return {"raised": raised, "executed": torch.simnpu.executed()}


def dtypes() -> dict[str, object]:
    """Dtypes that the device, or one operator, does not know."""
    device = Device("simnpu", dtypes=("bfloat16", "float32"), operator_dtypes={"aten.exp.default": ("float32",)})
    device_plugin("simnpu").install(device)
    half = torch.ones(3, dtype=torch.bfloat16).to("simnpu")
    return {
        "double": said(lambda: half.double()),
        "moved double": said(lambda: torch.ones(3, dtype=torch.float64).to("simnpu")),
        "complex": said(lambda: torch.zeros(2, dtype=torch.complex64, device="simnpu")),
        "exp in bfloat16": said(lambda: half.exp()),
        "exp in float32": said(lambda: half.float().exp()),
        "beside the host": said(lambda: half + torch.ones(3, dtype=torch.bfloat16)),
        "a number": (half * 2.5).cpu().tolist(),
    }


def memory() -> dict[str, object]:
    """Storages are counted once, freed with their last tensor, and refused beyond the limit."""
    device_plugin("simnpu").install(Device("simnpu", memory_bytes=SMALL_BYTES, dtypes=("float32",)))
    first = torch.zeros(1000, device="simnpu")
    view = first[10:20]
    shared = torch.simnpu.memory_allocated()
    refused = said(lambda: torch.zeros(2000, device="simnpu"))
    absurd = said(lambda: torch.empty(1 << 44, device="simnpu"))
    del first
    kept = torch.simnpu.memory_allocated()
    del view
    return {
        "shared": shared, "refused": refused, "absurd": absurd, "kept": kept, "freed": torch.simnpu.memory_allocated(),
        "peak": torch.simnpu.max_memory_allocated(), "again": said(lambda: torch.zeros(2000, device="simnpu")),
    }  # fmt: skip


def numerics() -> dict[str, object]:
    """The matrix unit's own path: other bits than the host's, and no further from float64."""
    device_plugin("simnpu").install(Device("simnpu", dtypes=("float32", "bfloat16")))
    torch.manual_seed(0)
    left, right = torch.randn(64, 512), torch.randn(512, 64)
    exact = left.double() @ right.double()
    ours, theirs = (left.to("simnpu") @ right.to("simnpu")).cpu(), left @ right
    linear = torch.nn.Linear(8, 4).to("simnpu")
    linear(torch.randn(3, 8).to("simnpu")).square().mean().backward()
    return {
        "same bits": torch.equal(ours, theirs),
        "ours": float((ours - exact).abs().max()),
        "theirs": float((theirs - exact).abs().max()),
        "made on the device": torch.tensor([1.0, 2.0], device="simnpu").cpu().tolist(),
        "gradient": [*linear.weight.grad.shape, linear.weight.grad.device.type],
    }


def loading() -> dict[str, object]:
    """A model that the library loads when the device is set up: what no checkpoint holds is computed all the same."""
    from dayzero.adapters.runners.loading import load_model

    device_plugin("simnpu").install(shipped())
    with torch.device("meta"):
        met = torch.tensor([]).device.type, torch.as_tensor([1.0]).device.type
    rotary = load_model(Path(sys.argv[2]), torch.bfloat16).model.rotary_emb
    exact = 10000.0 ** -(torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    return {"in a context": met, "frequencies": float((rotary.inv_freq / exact - 1).abs().max())}


def unset() -> dict[str, object]:
    """A factory of torch that somebody wrapped before any device context was used, as vendors' migration helpers do."""
    from dayzero.adapters.runners.held_back import compute_buffers, without_weights
    from dayzero.adapters.runners.loading import load_model

    made = torch.tensor
    torch.tensor = lambda *args, **kwargs: made(*args, **kwargs)
    found = {}
    for name, load in (
        ("loaded", lambda: load_model(Path(sys.argv[2]), torch.bfloat16)),
        ("streamed", lambda: compute_buffers(without_weights(Path(sys.argv[2]), torch.bfloat16).model)),
    ):
        try:
            load()
            found[name] = "nothing"
        except BlockedError as error:
            found[name] = str(error)
    return {"refused": found, "fills": torch.are_deterministic_algorithms_enabled()}


def another() -> dict[str, object]:
    """A second, different device in one process."""
    plugin = device_plugin("simnpu")
    plugin.install(Device("simnpu"))
    plugin.install(Device("simnpu"))
    try:
        plugin.install(Device("simnpu", memory_bytes=1))
    except Exception as error:  # noqa: BLE001 - the test looks at what it is
        return {"refused": type(error).__name__}
    return {"refused": None}


def elsewhere() -> dict[str, object]:
    """A device that neither torch nor a plugin has here."""
    found = {}
    for name in ("mps", "nonesuch"):
        try:
            device_for(RunRequest(Observation.LAYERS, "theirs", device=Device(name)))
        except BlockedError as error:
            found[name] = str(error)
    return {"refused": found, "host": device_for(RunRequest(Observation.LAYERS, "cpu")).type}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[1]]()))
