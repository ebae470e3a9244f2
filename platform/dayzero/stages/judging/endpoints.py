"""Verdicts on a server that already runs, from what it answered; and all that cannot be known from outside, as not_run."""

import math
import statistics
from dataclasses import dataclass

from dayzero.domain.canonical import Numbers
from dayzero.domain.observed_endpoint import Asked, Completion, EndpointObserved, Problem, Trouble
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict, worst_of

RUNG = "endpoint"
LIVE = "end_to_end.generation"
"""The check that says that a server is up: nothing else does."""

SUM_SLACK = 1e-2
"""How far the probabilities of the named alternatives may add up beyond 1: they are rounded to a few digits on their way."""

OUTSIDE = (
    (CheckLayer.OPERATOR_COVERAGE, "operators.coverage", "which operators the server runs"),
    (CheckLayer.PRECISION, "operators.float64", "what its operators compute"),
    (CheckLayer.PRECISION, "layers.three_way", "what its layers compute"),
    (CheckLayer.PRECISION, "model.perplexity", "the likelihood that it gives to a text which it did not write"),
    (CheckLayer.MEMORY_PARALLELISM, "memory.peak", "the memory that it takes"),
    (CheckLayer.MEMORY_PARALLELISM, "parallel.logits", "how the model is laid out on its devices"),
    (CheckLayer.MEMORY_PARALLELISM, "weights.integrity", "which weights it loaded"),
)
"""Checks that nothing outside the server can make, and what each would have to know."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The figures of one check."""

    verdict: Verdict
    reason: str
    measured: float | None = None
    tolerance: float | None = None
    unit: str | None = None
    n: int | None = None


def endpoint_checks(observed: EndpointObserved, evidence: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """All checks of an endpoint, in the order in which they were asked."""
    first = observed.first.completion
    found = {"endpoint.models": _models(observed), LIVE: _live(observed)}
    rest = ("stream", "determinism", "logprobs", "stop_reasons", "usage", "load")
    if first is None:
        found |= {f"endpoint.{name}": _Found(Verdict.NOT_RUN, "no completion came, so nothing more was asked") for name in rest}
    else:
        found |= {
            "endpoint.stream": _stream(observed, first),
            "endpoint.determinism": _determinism(observed, first),
            "endpoint.logprobs": _logprobs(observed, first),
            "endpoint.stop_reasons": _stop_reasons(observed),
            "endpoint.usage": _usage(observed, first),
            "endpoint.load": _load(observed),
        }
    numbers = {"url": observed.url, "model": observed.model, "protocol": observed.protocol}
    asked = tuple(_check(name, one, numbers, evidence) for name, one in found.items())
    outside = tuple(
        Check(layer, name, RUNG, Verdict.NOT_RUN, Grade.MEASURED, f"{what} cannot be known from outside")
        for layer, name, what in OUTSIDE
    )
    return (*asked, *outside)


def _check(name: str, found: _Found, numbers: Numbers, evidence: tuple[str, ...]) -> Check:
    return Check(
        CheckLayer.END_TO_END, name, RUNG, found.verdict, Grade.MEASURED, found.reason, found.measured, found.tolerance,
        found.unit, found.n, evidence, numbers,
    )  # fmt: skip


def endpoint_verdict(checks: tuple[Check, ...]) -> Check:
    """The check that the whole verification ends with: a failing one, else that of the completion, else the worst measured."""
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    live = next(check for check in checks if check.check == LIVE)
    if failed or live.verdict is not Verdict.PASS:
        return failed[0] if failed else live
    return worst_of(check for check in checks if check.verdict is not Verdict.NOT_RUN)


def _of_problem(problem: Problem) -> _Found:
    """A server that answers wrongly fails; one that could not be asked is not measured."""
    verdict = {Trouble.BROKEN: Verdict.FAIL, Trouble.ABSENT: Verdict.NOT_RUN}.get(problem.trouble, Verdict.ERROR)
    return _Found(verdict, problem.sentence)


def _models(observed: EndpointObserved) -> _Found:
    served = observed.served
    if served.problem is not None:
        return _of_problem(served.problem)
    if observed.model in served.names:
        return _Found(
            Verdict.PASS, f"{observed.model} is among the {len(served.names)} models that it lists", n=len(served.names)
        )
    listed = ", ".join(served.names[:8]) or "none"
    return _Found(Verdict.FAIL, f"{observed.model} is not among the models that it lists: {listed}", n=len(served.names))


def _live(observed: EndpointObserved) -> _Found:
    if observed.first.problem is not None:
        found = _of_problem(observed.first.problem)
        return _Found(Verdict.ERROR, found.reason) if found.verdict is Verdict.NOT_RUN else found
    answer = observed.first.completion
    if answer is None or not answer.text.strip():
        return _Found(Verdict.FAIL, "a completion came without any text", 0.0, 1.0, "characters, at least", 1)
    said = f"a real completion of {len(answer.text)} characters came in {answer.wall_s:.2f} s"
    return _Found(Verdict.PASS, said, float(len(answer.text)), 1.0, "characters, at least", 1)


def _stream(observed: EndpointObserved, first: Completion) -> _Found:
    asked = observed.streamed or Asked()
    if asked.problem is not None:
        return _of_problem(asked.problem)
    came = asked.completion
    if came is None or not came.chunks:
        return _Found(Verdict.FAIL, "a stream came without any text")
    if not came.ended:
        return _Found(Verdict.FAIL, f"the stream broke off after {came.chunks} events, without an end", float(came.chunks))
    if came.text == first.text:
        return _Found(Verdict.PASS, f"{came.chunks} events carry the same text as the whole answer", float(came.chunks), n=1)
    if not _same(observed, first):
        said = "the streamed text is another one, but whole answers differ from each other too"
        return _Found(Verdict.NOT_RUN, said, float(came.chunks))
    at = _parting(came.text, first.text)
    return _Found(Verdict.FAIL, f"the streamed text leaves the whole answer's at character {at}", float(came.chunks), n=1)


def _same(observed: EndpointObserved, first: Completion) -> bool:
    return all(one.completion is not None and one.completion.text == first.text for one in observed.repeats)


def _parting(left: str, right: str) -> int:
    pairs = zip(left, right, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))


def _determinism(observed: EndpointObserved, first: Completion) -> _Found:
    answers = [one.completion for one in observed.repeats if one.completion is not None]
    lost = [one.problem for one in observed.repeats if one.problem is not None]
    if lost:
        found = _of_problem(lost[0])
        return _Found(Verdict.ERROR if found.verdict is Verdict.NOT_RUN else found.verdict, f"a repeat failed: {found.reason}")
    if not answers:
        return _Found(Verdict.NOT_RUN, "the request was not repeated")
    other = [one for one in answers if one.text != first.text]
    n = len(answers) + 1
    share = 1.0 - len(other) / len(answers)
    if not other:
        return _Found(Verdict.PASS, f"{n} answers at temperature 0 are the same", 1.0, 1.0, "share of repeats", n)
    at = min(_parting(one.text, first.text) for one in other)
    said = f"{len(other)} of {len(answers)} repeats at temperature 0 differ, the earliest at character {at}"
    return _Found(Verdict.FAIL, said, share, 1.0, "share of repeats", n)


def _logprobs(observed: EndpointObserved, first: Completion) -> _Found:
    asked = observed.with_logprobs or Asked()
    if asked.problem is not None:
        found = _of_problem(asked.problem)
        if asked.problem.trouble is Trouble.REFUSED:
            return _Found(Verdict.NOT_RUN, f"log-probabilities are not offered: {found.reason}")
        return found
    rows = asked.completion.logprobs if asked.completion else None
    if not rows:
        return _Found(Verdict.NOT_RUN, "log-probabilities were asked for, and the answer holds none")
    above = [row for row in rows if row.logprob > 0 or any(value > 0 for _, value in row.top)]
    if above:
        return _Found(Verdict.FAIL, f"a log-probability above 0: {above[0].token!r}", n=len(rows))
    sums = [sum(math.exp(value) for value in dict(row.top).values()) for row in rows]
    if max(sums) > 1.0 + SUM_SLACK:
        return _Found(
            Verdict.FAIL, f"probabilities of one token's alternatives add up to {max(sums):.3f}", max(sums), 1.0, n=len(rows)
        )
    wrong = [at for at, row in enumerate(rows) if row.top and row.logprob < max(value for _, value in row.top) - SUM_SLACK]
    if wrong:
        row = rows[wrong[0]]
        best = max(row.top, key=lambda pair: pair[1])
        said = f"greedy, it took {row.token!r} ({row.logprob:.3f}) at token {wrong[0]} and prefers {best[0]!r} ({best[1]:.3f})"
        return _Found(Verdict.FAIL, said, float(len(wrong)), 0.0, "tokens", len(rows))
    return _Found(
        Verdict.PASS, f"all {len(rows)} tokens are the likeliest by the server's own figures", 0.0, 0.0, "tokens", len(rows)
    )


def _stop_reasons(observed: EndpointObserved) -> _Found:
    problems = [one.problem for one in (observed.short, observed.stopped) if one is not None and one.problem is not None]
    if problems:
        return _of_problem(problems[0])
    short = observed.short.completion if observed.short else None
    stopped = observed.stopped.completion if observed.stopped else None
    said = []
    if short is not None:
        if short.finish_reason != "length":
            return _Found(
                Verdict.FAIL, f"cut off after {observed.short_tokens} tokens it gave {short.finish_reason!r}, not 'length'"
            )
        said.append("'length' where tokens ran out")
    if stopped is not None and observed.stop_text is not None:
        if observed.stop_text in stopped.text:
            return _Found(Verdict.FAIL, f"it wrote on past its stop {observed.stop_text!r}")
        if stopped.finish_reason != "stop":
            return _Found(Verdict.FAIL, f"at its stop {observed.stop_text!r} it gave {stopped.finish_reason!r}, not 'stop'")
        said.append(f"'stop' at {observed.stop_text!r}")
    if not said:
        return _Found(Verdict.NOT_RUN, "no answer was cut off")
    return _Found(Verdict.PASS, f"it says {' and '.join(said)}", n=len(said))


def _usage(observed: EndpointObserved, first: Completion) -> _Found:
    answers = [first, *(one.completion for one in (*observed.repeats, *_one(observed.short)) if one.completion is not None)]
    counts = [one.usage for one in answers]
    if all(one is None for one in counts):
        return _Found(Verdict.NOT_RUN, "the server states no token counts")
    limits = [observed.most_tokens] * (len(answers) - (observed.short is not None)) + [observed.short_tokens]
    for usage, most in zip(counts, limits, strict=False):
        if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
            return _Found(Verdict.FAIL, "some answers state their token counts, others do not", n=len(answers))
        if usage.completion_tokens > most:
            return _Found(
                Verdict.FAIL, f"{usage.completion_tokens} tokens are counted where {most} were allowed", n=len(answers)
            )
        if usage.total_tokens is not None and usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
            parts = f"{usage.prompt_tokens} + {usage.completion_tokens}"
            return _Found(Verdict.FAIL, f"{usage.total_tokens} tokens in all are not {parts}", n=len(answers))
    prompts = {usage.prompt_tokens for usage in counts if usage is not None}
    if len(prompts) > 1:
        return _Found(Verdict.FAIL, f"the same prompt is counted as {sorted(prompts, key=str)} tokens", n=len(answers))
    listed = observed.with_logprobs.completion if observed.with_logprobs else None
    if listed is not None and listed.logprobs and listed.usage is not None and listed.usage.completion_tokens is not None:
        beyond = listed.usage.completion_tokens - len(listed.logprobs)
        # An end token is counted by most servers and listed by few.
        if not 0 <= beyond <= 1:
            said = f"{listed.usage.completion_tokens} tokens are counted, {len(listed.logprobs)} are listed"
            return _Found(Verdict.FAIL, said, float(beyond), 1.0, "tokens", len(answers))
    return _Found(
        Verdict.PASS, f"token counts of {len(answers)} answers agree with their limits and with each other", n=len(answers)
    )


def _one(asked: Asked | None) -> tuple[Asked, ...]:
    return () if asked is None else (asked,)


def _load(observed: EndpointObserved) -> _Found:
    load = observed.load
    if load is None:
        return _Found(Verdict.NOT_RUN, "no streams were asked for at once")
    if load.completed < load.streams:
        why = f": {load.problem.sentence}" if load.problem else ""
        said = f"{load.completed} of {load.streams} streams at once ended well{why}"
        return _Found(Verdict.FAIL, said, float(load.completed), float(load.streams), "streams", load.streams)
    said = f"{load.streams} streams at once ended well"
    return _Found(Verdict.PASS, said, float(load.completed), float(load.streams), "streams", load.streams)


def endpoint_measurements(observed: EndpointObserved) -> tuple[Measurement, ...]:
    """Times as a client sees them, network and queue included; absent where no stream came."""
    conditions: dict[str, int | float | str] = {"url": observed.url, "model": observed.model, "seen_from": "a client"}
    found: list[Measurement] = []
    came = observed.streamed.completion if observed.streamed else None
    if came is not None and came.first_s is not None:
        found.append(Measurement("ttft", came.first_s, "s", conditions))
        if came.gaps_s:
            found.append(Measurement("tpot", statistics.median(came.gaps_s), "s", conditions, len(came.gaps_s)))
        tokens = (came.usage.completion_tokens if came.usage else None) or came.chunks
        if came.wall_s > 0:
            found.append(Measurement("throughput", tokens / came.wall_s, "tokens/s", {**conditions, "streams": 1}, tokens))
    load = observed.load
    if load is not None and load.wall_s > 0 and load.tokens:
        found.append(
            Measurement(
                "throughput", load.tokens / load.wall_s, "tokens/s", {**conditions, "streams": load.streams}, load.tokens
            )
        )
    return tuple(found)
