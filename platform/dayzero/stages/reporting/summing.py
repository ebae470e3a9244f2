"""What checks say together: the four layers of verification, and what was proven of what people ask for."""

from collections.abc import Mapping, Sequence

from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.entry_report import Feature, LayerVerdict
from dayzero.domain.verdict import SEVERITY, Check, CheckLayer, Grade, Mode, Verdict
from dayzero.stages.entries.deciding import counts
from dayzero.stages.entries.required import requirements

GRADES = tuple(Grade)
INTERVALS = (
    ("perplexity_low", "perplexity_high", "perplexity"),
    ("difference_low", "difference_high", "difference of accuracy"),
)
"""Figures of checks that state an interval of 95 %, and of what."""

TOKENS = ("tokens", "prompt_tokens", "prefill_tokens")


def layer_verdicts(entry: CompatibilityEntry) -> tuple[LayerVerdict, ...]:
    """Each of the four layers: fail where anything fails, pass where all that the method requires of it passed."""
    needed = requirements(entry.key)
    found = []
    for layer in CheckLayer:
        checks = [check for check in entry.checks if check.layer is layer]
        missing = [need for need in needed if need.layer is layer and need.name in entry.missing_checks]
        names = {name for need in needed if need.layer is layer for name in need.any_of}
        counting = [check for check in checks if counts(check, entry.key)]
        verdict, deciding = _verdict(counting, [check for check in checks if check.check in names], bool(missing))
        tally = {one: sum(check.verdict is one for check in checks) for one in Verdict}
        grades = [check.grade for check in checks if check.verdict is not Verdict.NOT_RUN]
        found.append(
            LayerVerdict(
                layer,
                verdict,
                min(grades, key=GRADES.index, default=None),
                tally[Verdict.PASS],
                tally[Verdict.FAIL],
                tally[Verdict.ERROR],
                tally[Verdict.NOT_RUN],
                deciding.n if deciding else None,
                deciding.check if deciding else "",
                interval_of(checks),
            )
        )
    return tuple(found)


def _verdict(checks: Sequence[Check], required: Sequence[Check], missing: bool) -> tuple[Verdict, Check | None]:
    """The verdict and the check that decides it: of passes the required one that came nearest to its limit."""
    failed = next((check for check in checks if check.verdict is Verdict.FAIL), None)
    if failed is not None:
        return Verdict.FAIL, failed
    if missing:
        lacking = [check for check in required if check.verdict is not Verdict.PASS]
        worst = min(lacking, key=lambda check: SEVERITY.index(check.verdict), default=None)
        return (worst.verdict if worst else Verdict.NOT_RUN), worst
    passed = [check for check in required or checks if check.verdict is Verdict.PASS]
    if not passed:
        return Verdict.NOT_RUN, None
    return Verdict.PASS, max(passed, key=_share_of_limit)


def _share_of_limit(check: Check) -> float:
    """How near a pass came to its limit from below; a limit that must be reached has no such share."""
    if check.measured is None or not check.tolerance or check.measured >= check.tolerance:
        return 0.0
    return check.measured / check.tolerance


def interval_of(checks: Sequence[Check]) -> str:
    """The intervals that the checks state, in words."""
    said = []
    for check in checks:
        for low, high, what in INTERVALS:
            first, last = check.numbers.get(low), check.numbers.get(high)
            if isinstance(first, int | float) and isinstance(last, int | float):
                said.append(f"{what} {first:.4g} to {last:.4g} (95 %)")
    return "; ".join(said)


def features(entry: CompatibilityEntry, stack: Mapping[str, str]) -> tuple[Feature, ...]:
    """What was shown of dtypes, plans, context, caches, adapters, fine-tunes and engines; not_run where nobody tried."""
    key = entry.key
    made = [
        _feature(entry, "dtype", key.dtype, ("layers.three_way", "model.perplexity", "model.embeddings")),
        _feature(entry, "one process", "tp1", ("end_to_end.generation", "end_to_end.embedding")),
    ]
    rungs = sorted({check.rung for check in entry.checks if check.check.startswith("parallel.")} - {"tp1"})
    for rung in rungs:
        ran = tuple(check for check in entry.checks if check.check in ("parallel.logits", "parallel.share"))
        made.append(_of("plan", rung, tuple(check for check in ran if check.rung == rung)))
    reached = max((_tokens(check) for check in entry.checks if check.verdict is Verdict.PASS), default=0)
    if reached:
        long = tuple(check for check in entry.checks if check.verdict is Verdict.PASS and _tokens(check) == reached)
        made.append(_of("context", f"{reached:,} tokens", long))
    for name in sorted({check.check for check in entry.checks if check.check.startswith("cache.")}):
        made.append(_feature(entry, "cache", name.removeprefix("cache."), (name,)))
    made.append(_feature(entry, "fine-tune", "all weights", ("fine_tune.training",)))
    made.append(_feature(entry, "fine-tune", "LoRA", ("fine_tune.lora",)))
    versions = ", ".join(f"{name} {stack[name]}" for name in ("torch", "transformers", "vllm", "sglang") if name in stack)
    engine = f"{key.engine} ({versions})" if versions else key.engine
    made.append(_feature(entry, "engine", engine, ("end_to_end.generation", "end_to_end.embedding")))
    made.append(_feature(entry, "image", "built", ("image.build",)))
    return tuple(one for one in made if one.checks or one.name in ("dtype", "engine") or _asked(one, key.mode))


def _asked(feature: Feature, mode: Mode) -> bool:
    return feature.name == "fine-tune" and mode is Mode.FINE_TUNE


def _feature(entry: CompatibilityEntry, name: str, value: str, checks: tuple[str, ...]) -> Feature:
    return _of(name, value, tuple(check for check in entry.checks if check.check in checks))


def _of(name: str, value: str, ran: Sequence[Check]) -> Feature:
    """Fail where one fails, else pass where one passes, else what the worst of them says."""
    told = [check for check in ran if check.verdict is not Verdict.NOT_RUN]
    verdict = min((check.verdict for check in told), key=SEVERITY.index, default=Verdict.NOT_RUN)
    return Feature(name, value, verdict, tuple(check.check for check in (told or ran)))


def _tokens(check: Check) -> int:
    return max((int(size) for name in TOKENS if isinstance(size := check.numbers.get(name), int | float)), default=0)
