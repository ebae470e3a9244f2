"""BASELINE: what the references say of LAYERS' and PERPLEXITY's inputs, recorded for every later run of the same content."""

import time
from datetime import UTC, datetime

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.baseline_files import (
    KEPT,
    LOGITS,
    BaselineWriter,
    baseline_of,
    folder_of,
    layer_file,
)
from dayzero.adapters.runners.baseline_folders import DOCUMENT, read_baseline
from dayzero.adapters.runners.figures import finite, rows, tensor_error
from dayzero.adapters.runners.layer_sources import LayerSource, open_source
from dayzero.adapters.runners.observe_layers import layers_input
from dayzero.adapters.runners.observe_perplexity import likelihoods, perplexity_windows, reference_logits
from dayzero.adapters.runners.references import LayerReference, References
from dayzero.domain.baselines import Baseline, BaselineOf, BaselinesRecorded, LayerStatistics
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError

MOST_BYTES = 1 << 30
"""Tensors of a baseline that are kept at most, unless option `most_bytes` says otherwise."""


def observe_baseline(request: RunRequest) -> BaselinesRecorded:
    """Record what is not recorded yet. Options: `baseline_dir` and `content_id` (both needed), `keep_layers` (all, none or
    numbers with commas), `most_bytes`, and those of LAYERS and PERPLEXITY. BadInputError: an option is missing or wrong."""
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    ids = layers_input(request, folder, config).ids
    windows = perplexity_windows(request, folder, config)[1]
    named = [baseline_of(request, "layers", [ids], dtype), baseline_of(request, "logits", windows, dtype)]
    places = [folder_of(request, of) for of in named]
    if any(place is None for place in places):
        raise BadInputError("a baseline needs the options baseline_dir and content_id.", remedy="Give both.")
    found = [read_baseline(place) for place in places if place is not None and (place / DOCUMENT).is_file()]
    if len(found) == len(named):
        return BaselinesRecorded(tuple(found))
    source = open_source(request, folder, config, dtype)
    made = []
    for of, place in zip(named, places, strict=True):
        assert of is not None and place is not None
        if (place / DOCUMENT).is_file():
            made.append(read_baseline(place))
            continue
        writer = BaselineWriter(place)
        try:
            if of.kind == "layers":
                made.append(_layers(request, of, source, ids, dtype, writer))
            else:
                made.append(_logits(request, of, source, windows, dtype, writer))
            writer.finish(made[-1])
        except BaseException:
            writer.give_up()
            raise
    return BaselinesRecorded(tuple(made))


def _layers(
    request: RunRequest, of: BaselineOf, source: LayerSource, ids: torch.Tensor, dtype: torch.dtype, writer: BaselineWriter
) -> Baseline:
    began = time.monotonic()
    kept = _chosen(request, source.count)
    most = loading.option_int(request, "most_bytes", MOST_BYTES, least=0)
    references, statistics = References(source, ids, dtype), []
    for index in range(source.count):
        with source.layer(index) as layer:
            said = references.layer(index, layer)
        size = sum(getattr(said, name).nbytes for name in KEPT)
        keeps = index in kept and writer.kept_bytes + size <= most
        written = writer.keep(layer_file(index), {name: getattr(said, name) for name in KEPT}) if keeps else 0
        statistics.append(_statistics(index, f"{source.path}.{index}", said, written))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Baseline(
        of, _model(request), now, tuple(statistics), kept_bytes=writer.kept_bytes, observed_s=time.monotonic() - began
    )


def _statistics(index: int, module: str, said: LayerReference, written: int) -> LayerStatistics:
    exact, given = rows(said.exact), rows(said.given)
    update, native = exact - given, rows(said.by_native) - given
    return LayerStatistics(
        index, module, finite(float(exact.pow(2).mean().sqrt())), finite(float(exact.abs().max())),
        tensor_error(native, update), written,
    )  # fmt: skip


def _logits(
    request: RunRequest,
    of: BaselineOf,
    source: LayerSource,
    windows: list[torch.Tensor],
    dtype: torch.dtype,
    writer: BaselineWriter,
) -> Baseline:
    began = time.monotonic()
    exact, native = reference_logits(source, windows, dtype)
    named = {f"{at}.{kind}": one for kind, each in (("wide", exact), ("native", native)) for at, one in enumerate(each)}
    if sum(one.nbytes for one in named.values()) <= loading.option_int(request, "most_bytes", MOST_BYTES, least=0):
        writer.keep(LOGITS, named)
    reference, ours = (
        finite(float(torch.cat([likelihoods(ids, one) for ids, one in zip(windows, each, strict=True)]).mean()))
        for each in (exact, native)
    )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Baseline(of, _model(request), now, (), reference, ours, writer.kept_bytes, time.monotonic() - began)


def _chosen(request: RunRequest, count: int) -> frozenset[int]:
    """The layers whose tensors are kept."""
    asked = str(request.options.get("keep_layers", "all"))
    if asked in ("all", "none"):
        return frozenset(range(count) if asked == "all" else ())
    parts = [part.strip() for part in asked.split(",")]
    if not all(part.isdigit() and int(part) < count for part in parts):
        raise BadInputError(
            f"keep_layers={asked!r} names no layers of {count}.", remedy="Write all, none, or numbers: 0,12,31."
        )
    return frozenset(map(int, parts))


def _model(request: RunRequest) -> str:
    return str(request.options.get("model_name", ""))
