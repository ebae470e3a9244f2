"""A bundle's generate.py runs a real model, and says the same under a sharded plan as on one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dayzero.stages.bundle.generate import GENERATE_SCRIPT

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MAKE_MODEL = """
import sys
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
words = ["[UNK]", "The", "capital", "of", "France", "is", *(f"w{number}" for number in range(58))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(sys.argv[1])
"""


def output(*command: str | Path) -> str:
    """What the last line of a command's stdout is."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout.strip().splitlines()[-1] if ended.stdout.strip() else ""


def test_sharded_and_unsharded_generation_agree(tmp_path: Path) -> None:
    model, script = tmp_path / "model", tmp_path / "generate.py"
    script.write_text(GENERATE_SCRIPT)
    output(sys.executable, "-c", MAKE_MODEL, model)
    arguments = (script, "--model-dir", model, "--tokens", "6")
    alone = output(sys.executable, *arguments)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    sharded = output(*torchrun, *arguments, "--tp", "2")
    assert alone.startswith("The capital of France is w")
    assert sharded == alone


def test_a_model_without_a_language_head_gives_its_embedding(tmp_path: Path) -> None:
    model, script = tmp_path / "model", tmp_path / "generate.py"
    script.write_text(GENERATE_SCRIPT)
    encoder = MAKE_MODEL.replace("LlamaConfig, LlamaForCausalLM", "LlamaConfig, LlamaModel")
    output(sys.executable, "-c", encoder.replace("LlamaForCausalLM(", "LlamaModel("), model)
    values = [float(value) for value in output(sys.executable, script, "--model-dir", model).split()]
    assert len(values) == 32 and abs(sum(value * value for value in values) - 1.0) < 1e-3
