"""The layers of an entry in a line each, and the features that its checks prove."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dayzero.domain.entry import EntryKey
from dayzero.domain.features import Feature, Interval, LayerVerdict
from dayzero.domain.observations import CheckName
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.stages.entries.required import ENDS, requirements

_GRADES = tuple(Grade)
_BESIDE = ("image.", "serving.", "fine_tune.", "cache.")
"""Checks that have features of their own and decide no layer, unless the entry requires them."""
_LIBRARIES = ("torch", "transformers")
_TOKENS = ("prompt_tokens", "chunk_tokens", "new_tokens")
"""What a check says of how long its sequence was: the context is their sum."""


def layers_of(checks: Sequence[Check], key: EntryKey, missing: Sequence[str]) -> tuple[LayerVerdict, ...]:
    """All four layers: fail where a check fails, else error, else not_run where a required one is not shown or nothing ran."""
    needs = requirements(key)
    required = {need.name: need.layer for need in needs}
    named = {name for need in needs for name in need.any_of}
    apart = [one for one in checks if one.check in named or not one.check.startswith(_BESIDE)]
    return tuple(
        _layer(layer, [one for one in apart if one.layer is layer], [name for name in missing if required.get(name) is layer])
        for layer in CheckLayer
    )


def _layer(layer: CheckLayer, checks: list[Check], missing: list[str]) -> LayerVerdict:
    deciding = [one for one in checks if one.grade is not Grade.PREDICTED]
    found = {one.verdict for one in deciding}
    ran = [one for one in deciding if one.verdict is not Verdict.NOT_RUN]
    verdict = next((one for one in (Verdict.FAIL, Verdict.ERROR) if one in found), Verdict.PASS)
    if verdict is Verdict.PASS and (missing or not ran):
        verdict = Verdict.NOT_RUN
    return LayerVerdict(
        layer,
        verdict,
        min((one.grade for one in ran), key=_GRADES.index, default=Grade.PREDICTED),
        sum(one.n or 0 for one in ran),
        len(ran),
        tuple(interval for one in ran for interval in _intervals(one)),
        tuple(missing),
    )


def _intervals(check: Check) -> Iterator[Interval]:
    """Figures that a check states as NAME_low and NAME_high."""
    for name, low in check.numbers.items():
        figure = name.removesuffix("_low")
        high = check.numbers.get(f"{figure}_high")
        if figure != name and isinstance(low, int | float) and isinstance(high, int | float):
            yield Interval(check.check, figure, float(low), float(high))


def features_of(
    checks: Sequence[Check], key: EntryKey, quantization: str | None, stack: Mapping[str, str]
) -> tuple[Feature, ...]:
    """What was tried, each with its verdict; a feature that no check was asked about is not there."""
    ends = [one for one in checks if one.check in ENDS]
    told = [*_of_ends(ends, key, quantization, stack), *_parallel(checks), *_named(checks)]
    longest = max((_tokens(one) for one in checks if one.verdict is Verdict.PASS), default=(0, None), key=lambda pair: pair[0])
    if longest[1] is not None and longest[0]:
        told.append(_feature("context_tokens", str(longest[0]), longest[1]))
    return tuple(dict.fromkeys(told))


def _of_ends(ends: Iterable[Check], key: EntryKey, quantization: str | None, stack: Mapping[str, str]) -> Iterator[Feature]:
    """What a run from end to end ran in: its dtype, quantization, engine with versions."""
    versions = " ".join(f"{name} {stack[name]}" for name in _LIBRARIES if name in stack)
    for check in ends:
        yield _feature("dtype", key.dtype, check)
        if quantization:
            yield _feature("quantization", quantization, check)
        yield _feature("engine", f"{key.engine} ({versions})" if versions else key.engine, check)


def _parallel(checks: Iterable[Check]) -> Iterator[Feature]:
    for check in checks:
        if check.check == CheckName.PARALLEL_LOGITS.value:
            yield _feature("parallelism", check.rung, check)


def _named(checks: Iterable[Check]) -> Iterator[Feature]:
    """Checks that stand for a feature each: formats of the cache, ways to fine-tune."""
    for check in checks:
        kind, _, value = check.check.partition(".")
        if kind == "cache":
            yield _feature("cache_dtype", value, check)
        if kind == "fine_tune":
            yield _feature("fine_tune", value, check)


def _tokens(check: Check) -> tuple[int, Check | None]:
    """Tokens of one sequence that the check went through, as far as it says; n counts those of all sequences."""
    figures = (check.numbers.get(name) for name in _TOKENS)
    return int(sum(figure for figure in figures if isinstance(figure, int | float))), check


def _feature(feature: str, value: str, check: Check) -> Feature:
    return Feature(feature, value, check.verdict, check.grade, check.check)
