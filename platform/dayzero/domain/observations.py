"""What isolated runs observed: facts in figures, never verdicts. A figure that is not finite is None and counted beside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.observed_logits import LogitAgreement
from dayzero.domain.observed_source import WeightSource
from dayzero.domain.planning import Degrees
from dayzero.domain.sampling import CallFact, CallSamples


class CheckName(StrEnum):
    """Every check that verification can record."""

    OPERATORS_FLOAT64 = "operators.float64"
    OPERATORS_DISTRIBUTIONS = "operators.distributions"
    LAYERS_THREE_WAY = "layers.three_way"
    LAYERS_PREDICTION = "layers.multi_token_prediction"
    LAYERS_TOWERS = "layers.towers"
    DECODING_THREE_WAY = "decoding.three_way"
    MODEL_PERPLEXITY = "model.perplexity"
    PARALLEL_LOGITS = "parallel.logits"
    PARALLEL_FINGERPRINTS = "parallel.fingerprints"
    PARALLEL_SHARE = "parallel.share"
    PARALLEL_LADDER = "parallel.ladder"
    MEMORY_PEAK = "memory.peak"
    MEMORY_MODEL = "memory.model"
    GENERATION = "end_to_end.generation"
    REFERENCE_TEXT = "end_to_end.reference_text"
    EMBEDDING = "end_to_end.embedding"
    MODEL_EMBEDDINGS = "model.embeddings"
    TASKS = "application.tasks"
    FINE_TUNE_TRAINING = "fine_tune.training"
    FINE_TUNE_LORA = "fine_tune.lora"
    MODEL_LOGITS = "model.logits"
    CACHE_FP8_TENSOR = "cache.fp8_e4m3_tensor"
    CACHE_FP8_HEAD = "cache.fp8_e4m3_head"
    CACHE_INT8_HEAD = "cache.int8_head"


@dataclass(frozen=True, slots=True)
class TensorError:
    """How far a tensor lies from its reference: mean over rows of rms(error)/rms(reference), largest error, cosine.

    `nonfinite` counts elements that are NaN or infinite where the reference's are finite; the figures leave them out.
    """

    n: int
    rms_relative: float | None
    max_abs: float | None
    cosine: float | None
    nonfinite: int = 0


@dataclass(frozen=True, slots=True)
class OperatorError:
    """One distinct operator call on real inputs, against the same call in float64.

    `reference` names the operator that was computed in float64; None: it could not be compared, and `why` says why.
    `share_within` is the share of elements within 1e-3 of the reference after its rounding; `exact` answers for integers;
    `ulp_*` are in units of the last place. `missing`: the target has no kernel of it, and the host's stood in.
    """

    operator: str
    dtypes: tuple[str, ...]
    shape_class: str
    module: str
    reference: str | None
    why: str | None
    n: int
    max_abs: float | None = None
    rms_relative: float | None = None
    share_within: float | None = None
    exact: bool | None = None
    nonfinite: int = 0
    ulp_max: float | None = None
    ulp_beyond: float | None = None
    missing: bool = False


@dataclass(frozen=True, slots=True)
class OperatorErrors:
    """Every distinct operator of one prefill and one decode step of the target.

    `samples` are calls that ran on drawn inputs, `known` those that need not, for the stack's manifest has them; `left_out`
    counts by reason the comparable calls that are neither.
    """

    dtype: str
    target_path: str
    prompt_tokens: int
    operators: tuple[OperatorError, ...]
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    samples: tuple[CallSamples, ...] = ()
    known: tuple[CallFact, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayerError:
    """One layer, three ways. `target` and `native` were given the reference's input to the layer; `cumulative_*` their own.

    Errors of a layer are those of its update (output minus input) against the higher precision; `output_*` of its output.
    `ratio_max` is the largest element error over max(native error of the row, k · eps · rms). `identical`: the target's
    output equals the native reference's bit for bit. Excluded tokens are those whose routing is undecided at native error.
    `largest` is the largest finite absolute value of the higher precision's output: what the native dtype must be able to hold;
    `reference_nonfinite` counts the elements that are NaN or infinite even there.
    """

    index: int
    module: str
    target: TensorError
    native: TensorError
    output_target: TensorError
    output_native: TensorError
    ratio_max: float | None
    cumulative_target: TensorError
    cumulative_native: TensorError
    identical: bool
    tokens: int
    tokens_excluded: int = 0
    largest: float | None = None
    reference_nonfinite: int = 0


class Part(StrEnum):
    """What stands outside of the layers."""

    EMBEDDINGS = "embeddings"
    ROTARY = "rotary tables"
    MASK = "mask"
    FINAL_NORM = "final norm"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class PartError:
    """A part outside of the layers, given the reference's input. A mask's figures are those of what it allows, as 0 and 1.

    `layers` are those that got it (all of them: empty); `suspected` names a known mistake that gives the target's values.
    """

    part: Part
    module: str
    target: TensorError
    native: TensorError
    layers: tuple[int, ...] = ()
    suspected: str | None = None


@dataclass(frozen=True, slots=True)
class PathReach:
    """A path of the model that only long prompts take, with the tokens that it needs and whether the prompt had them."""

    path: str
    needs_tokens: int
    reached: bool


@dataclass(frozen=True, slots=True)
class ModuleError:
    """A module inside a suspected layer, given the native reference's input to it, with the operator where one stands out.

    `suspected` names a known mistake that, made in the reference, gives the target's output.
    """

    layer_index: int
    module: str
    operator: str | None
    target: TensorError
    native: TensorError
    depth: int
    suspected: str | None = None


@dataclass(frozen=True, slots=True)
class LayerErrors:
    """All layers on one teacher-forced input. `suspects` holds the modules looked into where a layer stood out; `parts` what
    stands outside of the layers; `paths` which paths this prompt was long enough for."""

    native_dtype: str
    reference_dtype: str
    target_path: str
    reference_path: str
    tokens: int
    token_source: str
    layers: tuple[LayerError, ...]
    suspects: tuple[ModuleError, ...] = ()
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    source: WeightSource | None = None
    baseline: str | None = None
    parts: tuple[PartError, ...] = ()
    paths: tuple[PathReach, ...] = ()


@dataclass(frozen=True, slots=True)
class PerplexityObserved:
    """Mean negative log-likelihood (nats a token) of one text in higher precision, native dtype and on the target.

    `difference_*` is the paired difference target minus native per token, with its standard error; `kl_*` the mean KL
    divergence from the higher precision; `top1_agreement` the share of positions whose likeliest token is the same.
    `nll_standard_error` is that of the target's likelihoods over tokens.
    """

    text: str
    token_source: str
    tokens: int
    native_dtype: str
    reference_dtype: str
    target_path: str
    nll_reference: float | None
    nll_native: float | None
    nll_target: float | None
    difference_mean: float | None
    difference_standard_error: float | None
    kl_native: float | None
    kl_target: float | None
    top1_agreement: float
    identical: bool
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    source: WeightSource | None = None
    baseline: str | None = None
    nll_standard_error: float | None = None
    agreement: tuple[LogitAgreement, ...] = ()


@dataclass(frozen=True, slots=True)
class RankMemory:
    """What one rank took of memory. `baseline_bytes` is what the process held before the model (libraries, interpreter); all
    else is above it or counted by itself.

    `weight_bytes` and `state_bytes` are those of the storages behind parameters and buffers, and behind the cache after the
    run; `load_peak_bytes` is the most until the model was there, `peak_bytes` the most from then on, resident or by the
    device's own count. `exact` is False where the kernel cannot tell the two apart.
    """

    rank: int
    baseline_bytes: int
    weight_bytes: int
    state_bytes: int
    load_peak_bytes: int
    peak_bytes: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class MemoryObserved:
    """One sequence, prefilled whole and decoded for a few tokens, with a cache; `attention` is the library's
    implementation that computed it (with eager, experts come one after the other)."""

    degrees: Degrees
    dtype: str
    attention: str
    prompt_tokens: int
    new_tokens: int
    ranks: tuple[RankMemory, ...]
    observed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """A token that the target took where the native reference, given the target's own text so far, takes another.

    `margin` is the higher-precision reference's preference for its best token over the target's (logits); `noise` the largest
    logit error of the native reference at that position. None: not finite.
    """

    prompt: int
    position: int
    reference_token: str
    target_token: str
    margin: float | None
    noise: float | None


@dataclass(frozen=True, slots=True)
class GenerationObserved:
    """Greedy decoding from the prompt's text to text; times are of the first prompt, comparisons of all of them.

    `reference_text` is what the native reference would say, up to its first divergence from the target;
    `divergence_margin` the higher-precision reference's preference for its own token there (logits), and `native_noise` the
    largest logit error of the native reference at that position. None: they never diverge. `divergences` has every one, over
    `prompts` prompts and `compared_tokens` tokens. `device_*`: what a device other than the host held at most, by its own
    count, and what it has. `untokenized`: why text cannot go in or come out.
    """

    prompt: str
    text: str
    tokenizer: str
    prompt_tokens: int
    new_tokens: int
    stopped_at_end: bool
    nonfinite_logits: int
    native_dtype: str
    target_path: str
    load_s: float
    ttft_s: float
    tpot_median_s: float | None
    throughput_tokens_per_s: float | None
    peak_rss_bytes: int
    first_divergence: int | None
    reference_token: str | None
    target_token: str | None
    divergence_margin: float | None
    native_noise: float | None
    reference_text: str
    reference_path: str
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    device_peak_bytes: int | None = None
    device_limit_bytes: int | None = None
    prompts: int = 1
    compared_tokens: int = 0
    divergences: tuple[Divergence, ...] = ()
    untokenized: str | None = None
