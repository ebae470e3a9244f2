"""The one door for config.json: foreign JSON in, a typed ModelConfig out.

Every optional field that is null counts as absent; the language model's fields are looked up in the nested configuration
of a multimodal wrapper first; a scalar that a publisher writes as a list of equal values is that value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dayzero.domain.architecture import Quantization, Rotary
from dayzero.domain.canonical import Json
from dayzero.domain.findings import Finding, Severity
from dayzero.errors import BadInputError
from dayzero.stages.configuration.dialects import in_common_names
from dayzero.stages.configuration.fields import Fields
from dayzero.stages.configuration.parts import (
    CompressedFields,
    HybridFields,
    LinearFields,
    SparseFields,
    StateSpaceFields,
    compressed_fields,
    hybrid_fields,
    layer_count,
    linear_fields,
    ratios_by_type,
    sparse_fields,
    state_space_fields,
    widths_by_layer,
)
from dayzero.stages.configuration.quantization import quantization_of
from dayzero.stages.configuration.rotary import rotary_of, theta_of
from dayzero.stages.configuration.towers import TowerFields, towers_of

MAX_CONFIG_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_LAYERS = 10_000
NESTED = ("text_config", "llm_config", "language_config", "text_model_config", "language_model_config")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A configuration's fields under one name each; None where it does not state them. Sizes in elements, windows in tokens.

    `moe_layer_frequency` is a step or one flag a layer; `layer_types` is cut to the number of layers.
    """

    architecture: str | None
    model_type: str | None
    text_model_type: str | None
    remote_code: bool
    hidden_size: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    intermediate_size: int | None
    vocabulary_size: int | None
    context_tokens: int | None
    dtype: str | None
    tied_embeddings: bool | None
    activation: str | None
    attention_bias: bool | None
    mlp_bias: bool | None
    use_qk_norm: bool | None
    rope_theta: float | None
    q_lora_rank: int | None
    kv_lora_rank: int | None
    nope_head_dim: int | None
    rope_head_dim: int | None
    value_head_dim: int | None
    sliding_window: int | None
    use_sliding_window: bool | None
    max_window_layers: int | None
    sliding_window_pattern: int | None
    layer_types: tuple[str, ...] | None
    routed_experts: int | None
    shared_experts: int | None
    experts_per_token: int | None
    moe_intermediate_size: int | None
    shared_intermediate_size: int | None
    first_dense_layers: int | None
    moe_layer_frequency: int | tuple[int, ...] | None
    dense_layers: tuple[int, ...]
    sparse_step: int | None
    scoring: str | None
    groups: int | None
    predict_layers: int
    quantization: Quantization | None
    towers: tuple[TowerFields, ...]
    linear: LinearFields
    state_space: StateSpaceFields
    sparse: SparseFields
    compressed: CompressedFields
    hybrid: HybridFields
    chunk_tokens: int | None
    unrotated_layers: tuple[int, ...] | None
    unrotated_interval: int | None
    expert_layers: tuple[int, ...] | None
    expert_step: int | None
    dense_intermediate_size: int | None
    latent_size: int | None
    latent_norm: bool | None
    zero_experts: int | None
    output_gate: bool | None
    latent_without_rotation: bool
    global_head_dim: int | None
    global_kv_heads: int | None
    keys_are_values: bool
    cache_shared_layers: int
    residual_streams: int | None
    residual_block: int | None
    segments: int | None
    layer_input_width: int
    layer_input_vocabulary: int | None
    wide_shared_layers: bool
    feed_forward_types: tuple[str, ...] | None
    ratios_by_type: Mapping[str, int]
    widths_by_layer: Mapping[int, int]
    rotary: Mapping[str, Rotary]
    findings: tuple[Finding, ...]


def read_configuration(document: bytes, side: bytes | None = None) -> ModelConfig:
    """The typed configuration; `side` is the quantization side file (hf_quant_config.json), where the repository has one.

    BadInputError: not JSON, not an object, too large or deep, a value of the wrong type or size.
    A missing model_type is the finding `configuration.no_model_type`; two names of one field that disagree are
    `configuration.conflict`.
    """
    top = in_common_names(_object(document))
    nested = next((value for key in NESTED if isinstance(value := top.get(key), dict)), None)
    if nested is None and isinstance(thinker := top.get("thinker_config"), dict):
        nested = next((value for key in NESTED if isinstance(value := thinker.get(key), dict)), None)
    fields = Fields(nested or {}, top)
    outer = Fields(top, {})
    model_type = outer.text("model_type")
    architectures = outer.texts("architectures") or fields.texts("architectures")
    layers = layer_count(fields, MAX_LAYERS)
    text_type = Fields(nested, {}).text("model_type") if nested is not None else model_type
    rotary = rotary_of(fields)
    config = ModelConfig(
        architecture=architectures[0] if architectures else None,
        model_type=model_type,
        text_model_type=text_type or model_type,
        remote_code=isinstance(top.get("auto_map"), dict),
        hidden_size=fields.count("hidden_size", "n_embd", "d_model", "dim"),
        layers=layers,
        heads=fields.count("num_attention_heads", "n_head", "n_heads", "num_heads", most=1_000_000),
        kv_heads=fields.count("num_key_value_heads", "num_kv_heads", "n_kv_heads", most=1_000_000),
        head_dim=fields.count("head_dim", "attention_head_dim", "kv_channels", most=1_000_000),
        intermediate_size=fields.count("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inter_dim", least=0),
        vocabulary_size=fields.count("vocab_size", "padded_vocab_size"),
        context_tokens=fields.count("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"),
        dtype=fields.text("dtype", "torch_dtype"),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        activation=fields.text("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"),
        attention_bias=fields.flag("attention_bias", "qkv_bias"),
        mlp_bias=fields.flag("mlp_bias"),
        use_qk_norm=fields.flag("use_qk_norm", "qk_norm"),
        rope_theta=theta_of(rotary),
        q_lora_rank=fields.count("q_lora_rank", least=0) or None,
        kv_lora_rank=fields.count("kv_lora_rank", least=0) or None,
        nope_head_dim=fields.count("qk_nope_head_dim", least=0),
        rope_head_dim=fields.count("qk_rope_head_dim", least=0),
        value_head_dim=fields.count("v_head_dim"),
        sliding_window=fields.window("sliding_window", "sliding_window_size"),
        use_sliding_window=fields.flag("use_sliding_window"),
        max_window_layers=fields.count("max_window_layers", least=0),
        sliding_window_pattern=fields.count("sliding_window_pattern", "_sliding_window_pattern"),
        layer_types=fields.texts_for("layer_types", layers),
        routed_experts=fields.count("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts",
                                    least=0, most=1_000_000) or None,
        shared_experts=fields.count("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0,
                                    most=1_000_000),
        experts_per_token=fields.count("num_experts_per_tok", "num_experts_per_token", "experts_per_token",
                                       "top_k_experts", "moe_topk", "n_activated_experts", least=0),
        moe_intermediate_size=fields.count("moe_intermediate_size", "moe_inter_dim", "expert_ffn_hidden_size"),
        shared_intermediate_size=fields.count("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                              "shared_intermediate_size", least=0),
        first_dense_layers=fields.count("first_k_dense_replace", "n_dense_layers", least=0),
        moe_layer_frequency=fields.step_or_flags("moe_layer_freq", layers),
        dense_layers=fields.counts("mlp_only_layers") or (),
        sparse_step=fields.count("decoder_sparse_step", least=0),
        scoring=fields.text("scoring_func", "moe_router_activation_func", "score_func"),
        groups=fields.count("n_group", "num_expert_group", "n_expert_groups", least=0),
        predict_layers=fields.count("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", least=0) or 0,
        quantization=quantization_of(_quantization(fields), side, fields.text("expert_dtype")),
        towers=towers_of(top),
        linear=linear_fields(fields),
        state_space=state_space_fields(fields),
        sparse=sparse_fields(fields, layers),
        compressed=compressed_fields(fields, layers),
        hybrid=hybrid_fields(fields, layers),
        chunk_tokens=fields.window("attention_chunk_size"),
        unrotated_layers=fields.flags("no_rope_layers", layers),
        unrotated_interval=fields.count("no_rope_layer_interval"),
        expert_layers=fields.counts("moe_layers"),
        expert_step=fields.count("interleave_moe_layer_step", least=0),
        dense_intermediate_size=fields.count("intermediate_size_mlp", "dense_intermediate_size"),
        latent_size=fields.count("routed_expert_hidden_size", "moe_latent_size"),
        latent_norm=fields.flag("latent_moe_use_norm"),
        zero_experts=fields.count("zero_expert_num", least=0),
        output_gate=fields.flag("attn_output_gate", "mla_use_output_gate"),
        latent_without_rotation=fields.flag("mla_use_nope") or False,
        global_head_dim=fields.count("global_head_dim"),
        global_kv_heads=fields.count("num_global_key_value_heads", most=1_000_000),
        keys_are_values=fields.flag("attention_k_eq_v") or False,
        cache_shared_layers=fields.count("num_kv_shared_layers", least=0) or 0,
        residual_streams=fields.count("hc_mult"),
        residual_block=fields.count("attn_res_block_size"),
        segments=fields.count("type_vocab_size", least=0),
        layer_input_width=fields.count("hidden_size_per_layer_input", least=0) or 0,
        layer_input_vocabulary=fields.count("vocab_size_per_layer_input"),
        wide_shared_layers=fields.flag("use_double_wide_mlp") or False,
        feed_forward_types=fields.texts_for("mlp_layer_types", layers),
        ratios_by_type=ratios_by_type(fields),
        widths_by_layer=widths_by_layer(fields),
        rotary=rotary,
        findings=(),
    )  # fmt: skip
    return _with_findings(config, fields)


def _quantization(fields: Fields) -> Mapping[str, Json] | None:
    for name in ("quantization_config", "compression_config", "quantization"):
        found = fields.mapping(name)
        if found:
            return found
    return None


def _with_findings(config: ModelConfig, fields: Fields) -> ModelConfig:
    findings = list(fields.findings)
    if config.model_type is None:
        findings.append(
            Finding("configuration.no_model_type", "config.json", "config.json names no model_type; nothing can be assumed "
                    "about its layers", Severity.ERROR)
        )  # fmt: skip
    return replace(config, findings=tuple(findings))


def _object(document: bytes) -> Mapping[str, Json]:
    if len(document) > MAX_CONFIG_BYTES:
        raise BadInputError(f"config.json has {len(document)} bytes; {MAX_CONFIG_BYTES} is the most that is read.")
    try:
        value = json.loads(document.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"config.json is not JSON: {str(error)[:160]}.", remedy="Give the config.json of a Hugging Face model."
        ) from error
    if not isinstance(value, dict):
        raise BadInputError(f"config.json holds a JSON {type(value).__name__}, not an object.",
                            remedy="Give the config.json of a Hugging Face model.")  # fmt: skip
    _require_shallow(value)
    return value


def _require_shallow(value: Json) -> None:
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for item in level:
            inner.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        if not inner:
            return
        level = inner
    raise BadInputError(f"config.json is nested deeper than {MAX_DEPTH} levels.")
