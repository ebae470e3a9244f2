"""transformers' from_pretrained, unchanged, against our own hub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.domain.release import FileRole, ReleaseStage
from hub_counter import CountingHub

pytestmark = [pytest.mark.hub, pytest.mark.torch]

MAKE = """
import sys
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
torch.manual_seed(0)
config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
LlamaForCausalLM(config).save_pretrained(sys.argv[1], max_shard_size="20KB")
words = {"[UNK]": 0, "hello": 1, "world": 2}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(sys.argv[1])
"""

USE = """
import sys
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
assert AutoConfig.from_pretrained("acme/llama").hidden_size == 32
tokens = AutoTokenizer.from_pretrained("acme/llama")("hello world", return_tensors="pt").input_ids
assert tokens.tolist() == [[1, 2]]
there = AutoModelForCausalLM.from_pretrained("acme/llama")
here = AutoModelForCausalLM.from_pretrained(sys.argv[1])
with torch.no_grad():
    assert torch.equal(there(tokens).logits, here(tokens).logits)
print("equal")
"""


def test_from_pretrained_gives_the_model_that_was_saved(tmp_path: Path) -> None:
    home = tmp_path / "models" / "acme" / "llama"
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    subprocess.run([sys.executable, "-c", MAKE, str(home)], check=True, env=environment, timeout=200)
    assert len(list(home.glob("*.safetensors"))) > 1
    with CountingHub(tmp_path / "models") as hub:
        done = subprocess.run(
            [sys.executable, "-c", USE, str(home)],
            env={**environment, "HF_ENDPOINT": hub.url},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0 and "equal" in done.stdout, done.stderr
        release = HuggingFaceHub(hub.url).release("acme/llama", None)
        assert release.stage is ReleaseStage.WEIGHTS
        assert hub.sent_bytes(".safetensors") >= sum(path.stat().st_size for path in home.glob("*.safetensors"))
        assert {file.path for file in release.files if file.role is FileRole.OTHER} == set()
