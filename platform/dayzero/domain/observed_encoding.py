"""What a model without a language head made of texts: their embeddings, three ways, and what they rank by."""

from dataclasses import dataclass

from dayzero.domain.evaluation import PairedOutcomes
from dayzero.domain.observations import TensorError


@dataclass(frozen=True, slots=True)
class Exchange:
    """Two texts that the target ranks the other way round than the higher-precision reference, for one anchor.

    `margin` is how much more similar the reference finds the first (cosines); `noise` the largest error of the native
    reference's similarities.
    """

    anchor: str
    first: str
    second: str
    margin: float


@dataclass(frozen=True, slots=True)
class EncodingObserved:
    """Texts into embeddings: one text at a time in the references, padded together on the target.

    `target` and `native` are errors of pooled, normalised embeddings against the higher precision. `nearest` pairs, over the
    anchors, whether their paraphrase is the nearest of all candidates by the native reference and by the target;
    `orders` counts the ordered pairs of candidates that were compared, `exchanges` those that the target reverses (the widest
    first, no more than a few), `similarity_noise` the native reference's largest error of a similarity. `closest` is the
    largest similarity of two different texts on the target. Times: `latency_s` is the median of single texts, tokenizing
    included.
    """

    texts: int
    width: int
    tokens: int
    tokenizer: str
    untokenized: str | None
    pooling: str
    pooling_source: str
    native_dtype: str
    reference_dtype: str
    reference_path: str
    target_path: str
    target: TensorError
    native: TensorError
    identical: bool
    nearest: PairedOutcomes
    orders: int
    reversed_orders: int
    exchanges: tuple[Exchange, ...]
    similarity_noise: float | None
    closest: float | None
    sample: tuple[float, ...]
    load_s: float
    latency_s: float
    throughput_texts_per_s: float
    throughput_tokens_per_s: float
    peak_rss_bytes: int
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    device_peak_bytes: int | None = None
    device_limit_bytes: int | None = None
