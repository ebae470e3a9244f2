"""Small models from a seed. Weights are scaled so that attention is peaked and every layer matters: faults show."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, DeepseekV3Config, LlamaConfig, PreTrainedTokenizerFast
from transformers.utils import logging

from dayzero.adapters.runners.dummy_weights import normal, weights_of

VOCABULARY = 264
"""256 bytes, three special tokens and five unused ones: divisible by 2, 3, 4 and 8."""
SPECIALS = ("<|begin|>", "<|end|>", "<|pad|>")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of single bytes that decodes to exactly what it was given."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    unused = [f"<|unused-{index}|>" for index in range(VOCABULARY - len(alphabet) - len(SPECIALS))]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (*SPECIALS, *unused)])
    begin, end, pad = SPECIALS
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end, pad_token=pad)


def write_llama_tiny(folder: Path, seed: int) -> None:
    """Six dense layers, grouped-query attention, bfloat16, tied to nothing."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        bos_token_id=256,
        eos_token_id=257,
        pad_token_id=258,
    )
    _write(config, folder, seed, "1GB")


def write_deepseek_tiny(folder: Path, seed: int) -> None:
    """Five layers, the first dense; latent attention; 16 experts in 4 groups, 4 taken, one shared; several shards."""
    config = DeepseekV3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=64,
        num_hidden_layers=5,
        num_attention_heads=8,
        num_key_value_heads=8,
        n_shared_experts=1,
        n_routed_experts=16,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=4,
        first_k_dense_replace=1,
        kv_lora_rank=64,
        q_lora_rank=96,
        qk_rope_head_dim=16,
        qk_nope_head_dim=32,
        v_head_dim=32,
        max_position_embeddings=1024,
        num_nextn_predict_layers=0,
        bos_token_id=256,
        eos_token_id=257,
        pad_token_id=258,
    )
    _write(config, folder, seed, "1MB")


def _write(config: Any, folder: Path, seed: int, shard_size: str) -> None:
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights_of(name, tuple(parameter.shape), seed))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.05 * normal(name, tuple(buffer.shape), seed))
    model.generation_config.do_sample = False
    model.save_pretrained(folder, max_shard_size=shard_size)
    byte_tokenizer().save_pretrained(folder)
