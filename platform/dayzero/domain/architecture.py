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
class Mixer:
    """A layer's token mixer; `kind` is a taxonomy name such as attention.gqa or attention.mla. Unknown numbers are None.

    `head_dim` is the query/key width of a head (for MLA with its rotary part); `qk_norm` is "head" (over each head) or
    "full" (over all heads together).
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


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A layer's feed-forward; `kind` is a taxonomy name such as mlp.gated or moe.routed."""

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


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the language model (0-based index)."""

    index: int
    mixer: Mixer
    feed_forward: FeedForward
    norm: str = "norm.rms"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts; None where unknown, with a finding that says why. See the design for each convention."""

    total_language: int | None
    total: int | None
    checkpoint_total: int | None
    active: int | None
    by_component: Mapping[str, int]
    source: Source


@dataclass(frozen=True, slots=True)
class StateSegment:
    """Cost of one more cached token from this token on."""

    from_token: int
    bytes_per_token: int


@dataclass(frozen=True, slots=True)
class SequenceState:
    """KV cache or recurrent state of one sequence, in bytes at the stated cache dtype."""

    dtype: str
    constant_bytes: int | None
    bytes_per_token: int | None
    segments: tuple[StateSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the weights are quantized: method, bits, block shape and modules left alone."""

    method: str
    bits: int | None = None
    block_shape: tuple[int, ...] | None = None
    ignored_modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightsSummary:
    """Weight bytes as the headers (or the hub's file sizes) state them."""

    bytes: int | None
    by_dtype: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's structure.

    `architecture` is the class name of the configuration (None when it names none), `model_type` its type;
    `known` says whether the installed modelling library knows that type (None when nobody could be asked). `family` names
    the structure rules that apply (None: no rules are known, only what the headers prove); `predict_layers` counts
    multi-token-prediction layers, which `layers` leaves out; `towers` names the configuration's other modalities.
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
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
