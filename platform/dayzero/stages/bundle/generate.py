"""The script that a bundle for torch runs; it is the same text for every model, so that no name can get into it."""

GENERATE_SCRIPT = '''\
"""Generates from a model folder under torchrun, sharded as asked. Rank 0 prints the text, or the embedding of a model without
a language head (the mean over tokens, normalised)."""

import argparse
import os
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--ep", type=int, default=1)
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--tokens", type=int, default=32)
    return parser.parse_args()


def sizes(asked: argparse.Namespace) -> dict[str, object]:
    """What from_pretrained is told about sharding; nothing on one device."""
    parts = {name: size for name, size in (("tp_size", asked.tp), ("pp_size", asked.pp), ("ep_size", asked.ep)) if size > 1}
    if not parts:
        return {}
    from transformers.distributed import DistributedConfig

    return {"distributed_config": DistributedConfig(**parts, **({"tp_plan": "auto"} if asked.tp > 1 else {}))}


def writes_text(model_dir: str) -> bool:
    """Whether the named class has a language head; the library would draw one at random for those that have none."""
    named = (AutoConfig.from_pretrained(model_dir, local_files_only=True).architectures or ["ForCausalLM"])[0]
    return named.endswith("LMHeadModel") or not named.endswith(("Model", "ForMaskedLM"))


def embed(asked: argparse.Namespace) -> None:
    tokenizer = AutoTokenizer.from_pretrained(asked.model_dir, local_files_only=True)
    model = AutoModel.from_pretrained(asked.model_dir, dtype=getattr(torch, asked.dtype), local_files_only=True).eval()
    with torch.inference_mode():
        hidden = model(**tokenizer(asked.prompt, return_tensors="pt")).last_hidden_state
    values = torch.nn.functional.normalize(hidden.mean(1).float(), dim=-1)[0].tolist()
    print(" ".join(f"{value:.6f}" for value in values))


def main() -> None:
    asked = arguments()
    if not writes_text(asked.model_dir):
        embed(asked)
        return
    tokenizer = AutoTokenizer.from_pretrained(asked.model_dir, local_files_only=True)
    dtype = getattr(torch, asked.dtype)
    model = AutoModelForCausalLM.from_pretrained(
        asked.model_dir, dtype=dtype, local_files_only=True, use_safetensors=True, **sizes(asked)
    ).eval()
    if (Path(__file__).parent / "precision_policy.json").is_file():
        from precision import follow_policy

        follow_policy(model)
    tokens = tokenizer(asked.prompt, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        generated = model.generate(**tokens, max_new_tokens=asked.tokens, do_sample=False)
    if os.environ.get("RANK", "0") == "0":
        print(tokenizer.decode(generated[0], skip_special_tokens=True))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
'''
