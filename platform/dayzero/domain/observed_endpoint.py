"""What a server that already runs answered from outside: facts, each with the sentence that says why there is none."""

from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """Why a request has no usable answer. The first three say nothing of the model; BROKEN is the server's own fault."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with one request, in one sentence."""

    trouble: Trouble
    sentence: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server states them; None where it does not."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """One generated token with the logarithm of its probability, and the best alternatives that the server named."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """One completed answer. `chunks` and `first_s` are of a stream (0 and None without); `ended` is false for one cut off."""

    text: str
    finish_reason: str | None
    usage: Usage | None
    wall_s: float
    logprobs: tuple[TokenProbability, ...] | None = None
    chunks: int = 0
    first_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's answer, or its problem: exactly one of the two."""

    completion: Completion | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """Names in the server's list of models, or why there is no list."""

    names: tuple[str, ...] = ()
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Several streams at once: how many, how many of them ended well, their tokens and the time of all."""

    streams: int
    completed: int
    tokens: int
    wall_s: float
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class EndpointObserved:
    """Everything that was asked of one endpoint.

    `first` and `repeats` are the same greedy request; `streamed` the same as a stream; `short` may take `short_tokens` tokens
    only; `stopped` names `stop_text` (a piece of the first answer; None: the answer was too short for one) as its stop.
    """

    url: str
    model: str
    protocol: str
    prompt: str
    most_tokens: int
    served: Served
    first: Asked
    repeats: tuple[Asked, ...] = ()
    streamed: Asked | None = None
    with_logprobs: Asked | None = None
    short: Asked | None = None
    short_tokens: int = 0
    stopped: Asked | None = None
    stop_text: str | None = None
    load: Load | None = None
