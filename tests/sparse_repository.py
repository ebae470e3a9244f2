"""A repository as large as its headers say, of holes: every file has its true size and header, and its weights take no room.

python tests/sparse_repository.py FOLDER DEVICES      plans it, lays out rank 0 and prints the figures as JSON
"""

import hashlib
import json
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.profiles.load import load_profiles
from dayzero.codec import dump
from dayzero.domain.planning import Workload
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.layout.ranks import fold
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.index import predicted_index
from dayzero.stages.structure.reading import read_spec
from dayzero.steps.headers import checkpoint_index

FILE_BYTES = 32 * 10**9
"""About what the publishers of trillions of parameters put into one file."""


def kimi_like(layers: int) -> dict[str, Any]:
    """Kimi-K2's configuration (moonshotai/Kimi-K2-Instruct) with so many layers, unquantized: 61 of them are 2.05 TB."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "first_k_dense_replace": 1, "hidden_act": "silu",
        "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 131072,
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 384, "n_shared_experts": 1,
        "norm_topk_prob": True, "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": layers,
        "num_key_value_heads": 64, "num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6, "rope_theta": 50000.0, "routed_scaling_factor": 2.827,
        "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc",
        "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 163840,
    }  # fmt: skip


def write_sparse(config: dict[str, Any], folder: Path) -> int:
    """Write the repository; the bytes of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = read_spec(json.dumps(config).encode(), None)
    index = predicted_index(spec)
    assert index is not None
    parts: list[list[TensorHeader]] = [[]]
    held = 0
    for header in sorted(index.tensors, key=lambda one: one.begin):
        if held and held + header.size_bytes > FILE_BYTES:
            parts.append([])
            held = 0
        parts[-1].append(header)
        held += header.size_bytes
    mapped: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        name = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        _write_holes(folder / name, part)
        mapped |= {header.name: name for header in part}
    (folder / "config.json").write_text(json.dumps(config))
    document = {"metadata": {"total_size": index.weight_bytes}, "weight_map": mapped}
    (folder / WEIGHTS_INDEX_FILE).write_text(json.dumps(document))
    return index.weight_bytes


def _write_holes(path: Path, headers: list[TensorHeader]) -> None:
    rows, at = {}, 0
    for header in headers:
        rows[header.name] = {
            "dtype": header.dtype, "shape": header.shape, "data_offsets": (at, at + header.size_bytes)
        }  # fmt: skip
        at += header.size_bytes
    text = json.dumps(rows).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + at)


def release_of(folder: Path) -> Release:
    """The repository as a hub would state it: small files by their digests, files of weights by size alone, for nobody can hash
    terabytes of holes in the time of a test."""
    roles = {"config.json": FileRole.CONFIGURATION, WEIGHTS_INDEX_FILE: FileRole.WEIGHTS_INDEX}
    files = []
    for path in sorted(folder.iterdir()):
        file = RepoFile(path.name, path.stat().st_size, roles.get(path.name, FileRole.WEIGHTS))
        small = path.name in roles
        files.append(replace(file, sha256=hashlib.sha256(path.read_bytes()).hexdigest()) if small else file)
    made = Release(HubKind.DIRECTORY, str(folder.resolve()), "0" * 40, ReleaseStage.WEIGHTS, tuple(files), "")
    return replace(made, content_id=content_id_of(files))


def plan_and_lay_out(folder: Path, devices: int) -> dict[str, Any]:
    """Headers, structure, plan and the manifest of rank 0, each with its seconds, the processor's seconds for all, and the peak
    of resident memory."""
    before = _resident_bytes()
    release, hub = release_of(folder), DirectoryHub(folder)
    clock, worked = [time.monotonic()], time.process_time()
    index = checkpoint_index(hub, release)
    clock.append(time.monotonic())
    spec = read_spec((folder / "config.json").read_bytes(), index)
    report = plan_for(spec, index, load_profiles(None)["h200"], Workload(), devices=devices, memory_limit_bytes=None)
    assert report.plan is not None, report.rejected
    clock.append(time.monotonic())
    degrees = report.plan.degrees
    manifest = lay_out(release.content_id, spec, index, degrees, report.workload.redundant_experts, ranks=(0,))
    document = dump(fold(manifest))
    clock.append(time.monotonic())
    return {
        "weight_bytes": index.weight_bytes, "files": len(release.weight_files()), "tensors": len(index.tensors),
        "plan": str(degrees), "ranks": degrees.world, "rank_tensors": manifest.files[0].tensor_count,
        "rank_bytes": manifest.files[0].weight_bytes, "manifest_bytes": len(document),
        "manifest_sha256": hashlib.sha256(document).hexdigest(), "headers_s": clock[1] - clock[0],
        "plan_s": clock[2] - clock[1], "manifest_s": clock[3] - clock[2], "all_s": clock[3] - clock[0],
        "cpu_s": time.process_time() - worked,
        "baseline_bytes": before, "peak_bytes": _resident_bytes(),
    }  # fmt: skip


def run(layers: int, devices: int, folder: Path) -> dict[str, Any]:
    """Write the repository and plan it in a process of its own."""
    write_sparse(kimi_like(layers), folder)
    command = [sys.executable, str(Path(__file__)), str(folder), str(devices)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found | {"disk_bytes": sum(path.stat().st_blocks * 512 for path in folder.iterdir())}


def _resident_bytes() -> int:
    """The most that was resident since this program began (getrusage counts its parent's, too)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(plan_and_lay_out(Path(sys.argv[1]), int(sys.argv[2]))))
