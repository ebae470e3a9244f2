"""What a repository file is to adaptation, judged by its path alone."""

import re
from pathlib import PurePosixPath

from dayzero.domain.release import FileRole

SAFE_WEIGHT_SUFFIXES = frozenset({".safetensors", ".gguf"})
"""Formats that hold tensors and nothing that runs."""

PICKLE_WEIGHT_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt"})
"""Formats that are, or may be, Python pickles: loading one runs what it says (Python manual, module pickle)."""

OTHER_WEIGHT_SUFFIXES = frozenset({".h5", ".msgpack", ".onnx", ".npz", ".tflite"})
"""Weights of other frameworks."""

WEIGHT_SUFFIXES = SAFE_WEIGHT_SUFFIXES | PICKLE_WEIGHT_SUFFIXES | OTHER_WEIGHT_SUFFIXES

_TRAINING_LEFTOVERS = re.compile(r"^(training_args|optimizer|scheduler|scaler|rng_state\w*|trainer_state)\.(bin|pt|pth|json)$")
_TOKENIZER_NAMES = frozenset(
    {
        "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tekken.json",
        "chat_template.json", "chat_template.jinja", "vocab.model",
    }
)  # fmt: skip
_CONFIGURATION_NAMES = frozenset(
    {
        "config.json", "generation_config.json", "quantization_config.json", "quantize_config.json", "quant_config.json",
        "hf_quant_config.json", "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
        "video_preprocessor_config.json", "adapter_config.json", "model_index.json", "params.json",
    }
)  # fmt: skip


def role_of(path: str) -> FileRole:
    """The role of a repository file (relative POSIX path).

    Tokenizer files by the names that transformers and mistral-common save; everything that is not known is OTHER, and
    so is what a training run left behind (optimizer.pt, training_args.bin).
    """
    name = PurePosixPath(path).name.lower()
    suffix = PurePosixPath(name).suffix
    if name.endswith((".safetensors.index.json", ".bin.index.json", ".pt.index.json")):
        return FileRole.WEIGHTS_INDEX
    if name in _TOKENIZER_NAMES or name.endswith(".tiktoken") or "chat_templates/" in path:
        return FileRole.TOKENIZER
    if name in _CONFIGURATION_NAMES:
        return FileRole.CONFIGURATION
    if _TRAINING_LEFTOVERS.match(name):
        return FileRole.OTHER
    if suffix in WEIGHT_SUFFIXES:
        return FileRole.WEIGHTS
    return FileRole.REMOTE_CODE if suffix == ".py" else FileRole.OTHER
