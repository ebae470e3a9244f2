"""ENCODING: texts into pooled embeddings, for models without a language head: three ways, with what they rank by, and timed.

The references take one text at a time; the target takes texts padded together, as a server does, so that a mask that lets
padding through shows.
"""

import json
import statistics
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite, tensor_error
from dayzero.adapters.runners.placing import device_for, fetched, on, peak_bytes, placed
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.three_ways import in_precision, make_target, path_of, reference_dtype, widened
from dayzero.domain.evaluation import PairedOutcomes
from dayzero.domain.observed_encoding import EncodingObserved, Exchange
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError

BATCH = 16
MOST_TOKENS = 128
SHOWN = 8
"""Values of the first embedding, and exchanges, that are written down."""


def sentence_pairs() -> list[tuple[str, str]]:
    """The packaged anchors and their paraphrases, of our own writing."""
    text = files("dayzero.adapters.runners.data").joinpath("sentence_pairs.jsonl").read_text(encoding="utf-8")
    return [(row["anchor"], row["paraphrase"]) for row in map(json.loads, text.splitlines())]


@dataclass(frozen=True, slots=True)
class Pooling:
    """How a token's hidden states become one embedding: mean, cls or last; and who says so."""

    kind: str
    source: str


def pooling_of(folder: Path, *, causal: bool) -> Pooling:
    """What the checkpoint states (1_Pooling/config.json), else the mean, else the last token of causal attention."""
    stated = folder / "1_Pooling" / "config.json"
    if stated.is_file():
        try:
            said = json.loads(stated.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadInputError(f"1_Pooling/config.json is no JSON ({error}).", remedy="Fetch the model anew.") from error
        for kind, name in (("cls", "cls_token"), ("mean", "mean_tokens"), ("last", "lasttoken")):
            if isinstance(said, dict) and said.get(f"pooling_mode_{name}") is True:
                return Pooling(kind, "1_Pooling/config.json")
        raise BadInputError("the checkpoint's pooling is none that is known here.", remedy="Known ones: mean, cls, last token.")
    return Pooling("last" if causal else "mean", "assumed: the checkpoint states none")


def pool(hidden: torch.Tensor, mask: torch.Tensor, kind: str) -> torch.Tensor:
    """Normalised embeddings [texts, width] from hidden states [texts, tokens, width] and mask [texts, tokens]."""
    if kind == "cls":
        pooled = hidden[:, 0]
    elif kind == "last":
        pooled = hidden[torch.arange(hidden.shape[0]), mask.sum(1) - 1]
    else:
        weights = mask[..., None].to(hidden.dtype)
        pooled = (hidden * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(pooled.to(torch.float64), dim=-1)


def observe_encoding(request: RunRequest) -> EncodingObserved:
    """Embeddings of the packaged sentences. BadInputError: the tokenizer does not fit the model."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    tokenizer = loading.tokenizer_of(folder)
    pairs = sentence_pairs()
    sentences = [anchor for anchor, _ in pairs] + [paraphrase for _, paraphrase in pairs]
    given = [loading.text_tokens(folder, config, sentence, MOST_TOKENS) for sentence in sentences]
    ids = [one.ids[0] for one in given]
    device = device_for(request)
    install(request.bridges, device)
    pooling = pooling_of(folder, causal=loading.is_causal(config))
    loading_began = time.monotonic()
    native = loading.load_model(folder, dtype)
    patched = make_target(native, device)
    load_s = time.monotonic() - loading_began
    with loading.plugins_installed(patched, request):
        batch_began = time.monotonic()
        target = torch.cat([_encode(patched, ids[at : at + BATCH], pooling, device) for at in range(0, len(ids), BATCH)])
        batch_s = time.monotonic() - batch_began
        latency_s = statistics.median(
            _single(patched, tokenizer, text, one, pooling, device)
            for text, one in list(zip(sentences, ids, strict=True))[:BATCH]
        )
    peak = own_peak_bytes()
    by_native = torch.cat([_encode(native, [one], pooling) for one in ids])
    wide = widened(native, reference_dtype(dtype))
    with in_precision(reference_dtype(dtype)):
        exact = torch.cat([_encode(wide, [one], pooling) for one in ids])
    ranked = _rank(sentences, exact, by_native, target)
    total = sum(len(one) for one in ids)
    similar = target @ target.T
    similar.fill_diagonal_(-1.0)
    return EncodingObserved(
        len(ids),
        target.shape[1],
        total,
        given[0].source,
        None if tokenizer is not None else loading.NO_TOKENIZER,
        pooling.kind,
        pooling.source,
        dtype_name(dtype),
        dtype_name(reference_dtype(dtype)),
        f"eager, one text at a time, {path_of(native)}",
        f"eager, {BATCH} texts padded together, {path_of(patched)}{on(device)}",
        tensor_error(target, exact),
        tensor_error(by_native, exact),
        bool(torch.equal(target, by_native)),
        ranked.nearest,
        ranked.orders,
        ranked.reversed_orders,
        ranked.exchanges,
        ranked.noise,
        finite(float(similar.max())),
        tuple(float(value) for value in target[0, :SHOWN]) if bool(torch.isfinite(target[0, :SHOWN]).all()) else (),
        load_s,
        latency_s,
        len(ids) / batch_s,
        total / batch_s,
        peak,
        request.custom_operators,
        time.monotonic() - began,
        peak_bytes(device),
        request.device.memory_bytes if request.device else None,
    )


def _encode(model: Any, ids: list[torch.Tensor], pooling: Pooling, device: torch.device | None = None) -> torch.Tensor:
    """Embeddings of texts, padded together where there are several."""
    length = max(len(one) for one in ids)
    padded = torch.zeros(len(ids), length, dtype=torch.long)
    mask = torch.zeros(len(ids), length, dtype=torch.long)
    for row, one in enumerate(ids):
        padded[row, : len(one)] = one
        mask[row, : len(one)] = 1
    where = device or torch.device("cpu")
    with torch.no_grad():
        out = model(input_ids=placed(padded, where), attention_mask=placed(mask, where))
    return pool(fetched(out.last_hidden_state), mask, pooling.kind)


def _single(model: Any, tokenizer: Any, text: str, ids: torch.Tensor, pooling: Pooling, device: torch.device) -> float:
    """Seconds from one text to its embedding; without a tokenizer from its tokens, `ids`."""
    began = time.monotonic()
    if tokenizer is not None:
        ids = torch.tensor(tokenizer(text)["input_ids"][:MOST_TOKENS])
    _encode(model, [ids], pooling, device)
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class _Ranked:
    nearest: PairedOutcomes
    orders: int
    reversed_orders: int
    exchanges: tuple[Exchange, ...]
    noise: float | None


def _rank(sentences: list[str], exact: torch.Tensor, native: torch.Tensor, target: torch.Tensor) -> _Ranked:
    """Every anchor against every paraphrase: whose own is the nearest, and which orders the target reverses."""
    half = len(sentences) // 2
    by_exact, by_native, by_target = (part[:half] @ part[half:].T for part in (exact, native, target))
    right = torch.arange(half)
    hits = [(by.argmax(-1) == right).tolist() for by in (by_native, by_target)]
    outcomes = list(zip(*hits, strict=True))
    nearest = PairedOutcomes(*(outcomes.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))
    margins = by_exact[:, :, None] - by_exact[:, None, :]
    turned = (margins > 0) & (by_target[:, :, None] < by_target[:, None, :])
    found = [
        Exchange(sentences[a], sentences[half + b], sentences[half + c], float(margins[a, b, c]))
        for a, b, c in turned.nonzero().tolist()
    ]
    found.sort(key=lambda one: -one.margin)
    noise = finite(float((by_native - by_exact).abs().max()))
    return _Ranked(nearest, int((margins > 0).sum()), len(found), tuple(found[:SHOWN]), noise)
