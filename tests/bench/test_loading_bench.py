"""Start to first token from cold shards, with layers computing while the next are read and without; ratios of one run."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.demo_models.make import make
from dayzero.domain.planning import Degrees
from dayzero.stages.headers.reading import header_length, index_of, parse_header
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.structure.reading import read_spec

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(1800)]
ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))


def write_seeded(folder: Path) -> Path:
    """A dense model of 2.2 GB in bfloat16, its values from one seeded pool."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=4096, hidden_size=2048, intermediate_size=8192, num_hidden_layers=17, num_attention_heads=16,
        num_key_value_heads=16, tie_word_embeddings=False, dtype="bfloat16",
    )  # fmt: skip
    with torch.device("meta"):
        shapes = {name: tuple(one.shape) for name, one in AutoModelForCausalLM.from_config(config).named_parameters()}
    torch.manual_seed(0)
    pool = (torch.randn(8192 * 2048) * 0.02).to(torch.bfloat16)
    folder.mkdir(parents=True)
    names = sorted(shapes)
    for number in range(4):
        held = {name: pool[: torch.Size(shapes[name]).numel()].reshape(shapes[name]).clone() for name in names[number::4]}
        save_file(held, folder / f"model-{number + 1:05d}-of-00004.safetensors", {"format": "pt"})
    index = {name: f"model-{at % 4 + 1:05d}-of-00004.safetensors" for at, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    config.save_pretrained(folder)
    return folder


def shard(model: Path, into: Path) -> int:
    """One rank's shards; their bytes."""
    headers = {}
    for path in sorted(model.glob("*.safetensors")):
        with path.open("rb") as stream:
            first, size = stream.read(8), path.stat().st_size
            headers[path.name] = parse_header(path.name, size, stream.read(header_length(first, path.name, size)))
    index = index_of(headers, None)
    spec = read_spec((model / "config.json").read_bytes(), index)
    return WeightTransfer().shard(model, lay_out("bench", spec, index, Degrees()), into, None).rank_weight_bytes(0)


@pytest.mark.parametrize("which", ["SmolLM2-135M", "seeded"])
def test_start_to_first_token(tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    model = write_seeded(tmp_path / "model") if which == "seeded" else make("smollm2", tmp_path / "model")
    size = shard(model, tmp_path / "shards")
    command = [sys.executable, Path(__file__).with_name("first_token.py"), model, tmp_path / "shards", str(ROUNDS)]
    runs = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    took = {way: statistics.median(run["s"] for run in each) for way, each in runs.items()}
    assert len({run["token"] for each in runs.values() for run in each}) == 1
    assert all(run["read"] > 0.9 for each in runs.values() for run in each), "the files were not cold"
    with capsys.disabled():
        print(f"\n{which}, {size:,} bytes, medians of {ROUNDS}: " + ", ".join(f"{way} {s:.2f} s" for way, s in took.items()))
        for way in ("no overlap", "from_pretrained"):
            print(f"  overlap / {way}: {took['overlap'] / took[way]:.2f}")
