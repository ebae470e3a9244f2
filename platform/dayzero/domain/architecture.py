"""ModelSpec: what a model is, layer by layer, with the source of each number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.findings import Assumption, Finding


class Source(StrEnum):
    """Where a number came from."""

    TENSOR_HEADERS = "tensor_headers"
    TRACED_MODEL = "traced_model"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Picks the tokens (with `block_tokens`: the blocks of them) that an attention layer reads; caches keys of its own."""

    heads: int
    head_dim: int
    top_k: int | None = None
    block_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The fixed-size state of a linear-attention or state-space mixer.

    The state of one sequence holds `heads` × `key_dim` × `value_dim` elements of `state_dtype`, and `conv_channels` ×
    (`conv_kernel` − 1) elements of the cache's dtype for the short convolution. For state-space mixers `key_dim` is the state
    size and `value_dim` the head's width (1 for Mamba-1, whose heads are its channels).
    """

    heads: int
    key_dim: int
    value_dim: int
    key_heads: int | None = None
    conv_kernel: int = 0
    conv_channels: int = 0
    groups: int | None = None
    step_rank: int | None = None
    full_rank_gate: bool = False
    conv_bias: bool = False
    inner_norm: bool = True
    state_dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Mixer:
    """A layer's token mixer; `kind` is a taxonomy name such as attention.gqa or attention.mla. Unknown numbers are None.

    `head_dim` is the query/key width of a head (for MLA with its rotary part); `qk_norm` is "head" (over each head) or
    "full" (over all heads together). `window_tokens` and `chunk_tokens` bound what is cached; `compression` is how many tokens
    one compressed cache entry stands for, beside the window; `output_gate` is "element" or "head"; `one_projection` says that
    keys and values come from one projection; `positions` is rotary, learned or none; `rotary_dim` counts the rotated
    dimensions of a head; `cached` is False where a layer reads another layer's cache.
    """

    kind: str
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_head_dim: int | None = None
    window_tokens: int | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    rope_theta: float | None = None
    bias: bool = False
    output_bias: bool = False
    qk_norm: str | None = None
    sinks: bool = False
    chunk_tokens: int | None = None
    compression: int | None = None
    output_gate: str | None = None
    output_groups: int | None = None
    output_lora_rank: int | None = None
    one_projection: bool = False
    positions: str = "rotary"
    rotary_dim: int | None = None
    causal: bool = True
    cached: bool = True
    indexer: Indexer | None = None
    recurrence: Recurrence | None = None


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A layer's feed-forward; `kind` is a taxonomy name such as mlp.gated or moe.routed.

    `latent_size` is the width at which routed experts run where it is not the model's; `zero_experts` are routed to but hold
    no weights; `dense_size` is a dense feed-forward beside the experts; `correction_bias` a bias that only steers routing;
    `hash_routed` layers take experts by token, not by score.
    """

    kind: str
    intermediate_size: int | None = None
    activation: str | None = None
    routed_experts: int = 0
    shared_experts: int = 0
    experts_per_token: int = 0
    shared_intermediate_size: int | None = None
    scoring: str | None = None
    groups: int | None = None
    bias: bool = False
    latent_size: int | None = None
    latent_norm: bool = False
    zero_experts: int = 0
    dense_size: int | None = None
    correction_bias: bool = False
    shared_gate: bool = False
    hash_routed: bool = False
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the language model (0-based index).

    `mixer` or `feed_forward` is None in layers that hold only the other; `parallel` is a second mixer on the same input
    (attention and state space side by side).
    """

    index: int
    mixer: Mixer | None
    feed_forward: FeedForward | None
    norm: str = "norm.rms"
    parallel: Mixer | None = None

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """The layer's mixers: none, one, or two side by side."""
        return tuple(mixer for mixer in (self.mixer, self.parallel) if mixer is not None)

    @property
    def experts(self) -> int:
        """Routed experts with weights."""
        return self.feed_forward.routed_experts if self.feed_forward else 0


@dataclass(frozen=True, slots=True)
class Rotary:
    """Rotary embedding in one normal form. `extra` holds what the configuration says beside it, as text: an operator's
    support of those keys has to be checked."""

    kind: str
    theta: float | None = None
    factor: float | None = None
    original_context_tokens: int | None = None
    attention_factor: float | None = None
    rotated_share: float | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts; None where unknown, with a finding that says why.

    `total_language` leaves out towers, multi-token prediction and router correction biases; `total` adds towers;
    `checkpoint_total` is all that the checkpoint holds. `active` counts embeddings and head; `active_by_convention` has the
    other ways in which publishers count (without_input_embedding, without_embeddings, with_prediction).
    """

    total_language: int | None
    total: int | None
    checkpoint_total: int | None
    active: int | None
    by_component: Mapping[str, int]
    source: Source
    active_by_convention: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateSegment:
    """Cost of one more cached token from this token on."""

    from_token: int
    bytes_per_token: int


@dataclass(frozen=True, slots=True)
class SequenceState:
    """KV cache and recurrent state of one sequence, in bytes at the stated cache dtype.

    `constant_bytes` does not grow with the sequence; `bytes_per_token` is one more token's cost while it is inside every
    window, the last segment its cost beyond every window. Compressed caches count their entries' share of one token.
    """

    dtype: str
    constant_bytes: int | None
    bytes_per_token: int | None
    segments: tuple[StateSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Bytes that training keeps for all parameters, item by item, before they are shared out over devices."""

    optimizer: str
    items_bytes: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        """All items together."""
        return sum(self.items_bytes.values())


@dataclass(frozen=True, slots=True)
class QuantizationGroup:
    """One scheme and the modules that it is for (name patterns as the publisher wrote them; empty: all linear modules).

    `scheme` is one of fp8_block, fp8_tensor, fp8_channel, mxfp8, mxfp4, nvfp4, int4_group, int8, or other; `group_size` counts
    weights that share a scale, `scale_bits` the bits of one scale (and zero point).
    """

    scheme: str
    bits: int | None = None
    group_size: int | None = None
    scale_bits: int = 0
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the weights are quantized: method, bits, block shape and modules left alone.

    `groups` holds each scheme with its modules, the first for what no other names; `cache_dtype` is what the publisher says of
    the cache, never of the weights; `source` is the file that says so. With `act_order` inputs are sorted by group, so that
    a slice of inputs needs the scales of all groups.
    """

    method: str
    bits: int | None = None
    block_shape: tuple[int, ...] | None = None
    ignored_modules: tuple[str, ...] = ()
    groups: tuple[QuantizationGroup, ...] = ()
    cache_dtype: str | None = None
    source: str = "config.json"
    complete: bool = True
    act_order: bool = False


@dataclass(frozen=True, slots=True)
class WeightsSummary:
    """Weight bytes as the headers (or the hub's file sizes) state them.

    `predicted_bytes` is what the configuration alone leads to (with its quantization and scales); None where it cannot be said.
    """

    bytes: int | None
    by_dtype: Mapping[str, int] = field(default_factory=dict)
    predicted_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's structure.

    `architecture` is the class name of the configuration (None when it names none), `model_type` its type;
    `known` says whether the installed modelling library knows that type (None when nobody could be asked). `family` names
    the structure rules that apply (None: no rules are known, only what the headers prove); `predict_layers` counts
    multi-token-prediction layers, which `layers` leaves out; `towers` names the configuration's other modalities; `rotary` has
    the rotary embeddings by the kind of layer that uses them; `residual` is add, hyper_connections (with `residual_streams`) or
    attention (over blocks of layers); `segments` counts token types that have embeddings of their own;
    `layer_input_width` is that of a second embedding which every layer reads its own slice of (0: there is none).
    """

    architecture: str | None
    model_type: str | None
    known: bool | None
    hidden_size: int | None
    vocabulary_size: int | None
    context_tokens: int | None
    native_dtype: str | None
    tied_embeddings: bool | None
    layers: tuple[Layer, ...]
    parameters: Parameters
    weights: WeightsSummary
    state: SequenceState
    quantization: Quantization | None = None
    remote_code: bool = False
    family: str | None = None
    predict_layers: int = 0
    towers: tuple[str, ...] = ()
    rotary: Mapping[str, Rotary] = field(default_factory=dict)
    residual: str = "add"
    residual_streams: int = 1
    segments: int = 0
    layer_input_width: int = 0
    layer_input_vocabulary: int = 0
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
