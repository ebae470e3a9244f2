"""Everything that is asked of a running server, in one order: what needs a completion is asked only after one came."""

import time
from concurrent.futures import ThreadPoolExecutor

from dayzero.adapters.endpoints.client import Endpoint, Wish
from dayzero.domain.observed_endpoint import Asked, EndpointObserved, Load, Served, Trouble
from dayzero.errors import BadInputError, UnavailableError

PROMPT = "Write three sentences about the sea."
MOST_TOKENS = 48
SHORT_TOKENS = 4
REPEATS = 3
ALTERNATIVES = 5
STREAMS = 4
STOP_LEAST = 3
"""Words that an answer must have before one of them, from its middle, can be its stop."""


def observe_endpoint(
    endpoint: Endpoint, model: str | None = None, prompt: str = PROMPT, most_tokens: int = MOST_TOKENS
) -> EndpointObserved:
    """Ask a server all there is to ask. BadInputError: it serves several models and none was named.

    UnavailableError: nothing answers at the address.
    """
    served = endpoint.models()
    if served.problem is not None and served.problem.trouble is Trouble.UNREACHABLE:
        raise UnavailableError(f"{endpoint.url}: {served.problem.sentence}.", remedy="Start the server, or correct --endpoint.")
    name = _model_of(endpoint, served, model)
    wish = Wish("chat", name, prompt, most_tokens)
    first = endpoint.complete(wish)
    if first.problem is not None and first.problem.trouble is Trouble.ABSENT:
        plain = Wish("text", name, prompt, most_tokens)
        by_text = endpoint.complete(plain)
        wish, first = (plain, by_text) if by_text.completion is not None else (wish, first)
    observed = EndpointObserved(endpoint.url, name, wish.protocol, prompt, most_tokens, served, first)
    if first.completion is None:
        return observed
    return _further(endpoint, wish, observed, first.completion.text)


def _model_of(endpoint: Endpoint, served: Served, model: str | None) -> str:
    if model is not None:
        return model
    if len(served.names) == 1:
        return served.names[0]
    if served.problem is not None:
        why = f"its list of models cannot be read: {served.problem.sentence}"
    else:
        why = f"it lists {len(served.names)} models: {', '.join(served.names[:8]) or 'none'}"
    raise BadInputError(f"{endpoint.url}: which model is to be verified? {why}.", remedy="Name it with --model.")


def _further(endpoint: Endpoint, wish: Wish, observed: EndpointObserved, text: str) -> EndpointObserved:
    """What is asked once a completion has come."""
    stop = stop_of(text)

    def like(most_tokens: int = wish.most_tokens, stop: str | None = None, alternatives: int = 0) -> Wish:
        return Wish(wish.protocol, wish.model, wish.prompt, most_tokens, stop, alternatives)

    return EndpointObserved(
        observed.url,
        observed.model,
        observed.protocol,
        observed.prompt,
        observed.most_tokens,
        observed.served,
        observed.first,
        tuple(endpoint.complete(wish) for _ in range(REPEATS)),
        endpoint.stream(wish),
        endpoint.complete(like(alternatives=ALTERNATIVES)),
        endpoint.complete(like(most_tokens=SHORT_TOKENS)),
        SHORT_TOKENS,
        None if stop is None else endpoint.complete(like(stop=stop)),
        stop,
        _load(endpoint, wish),
    )


def stop_of(text: str) -> str | None:
    """A word from the middle of an answer that does not stand before it; None where there is none."""
    words = text.split()
    for word in words[len(words) // 2 :] if len(words) >= STOP_LEAST else []:
        if text.find(word) > 0 and len(word) > 1:
            return word
    return None


def _load(endpoint: Endpoint, wish: Wish) -> Load:
    """Several streams at once."""
    began = time.monotonic()
    with ThreadPoolExecutor(STREAMS) as pool:
        answers = list(pool.map(lambda _: endpoint.stream(wish), range(STREAMS)))
    wall_s = time.monotonic() - began
    return Load(
        STREAMS,
        sum(_well(answer) for answer in answers),
        sum(tokens_of(answer) for answer in answers),
        wall_s,
        next((answer.problem for answer in answers if answer.problem is not None), None),
    )


def _well(answer: Asked) -> bool:
    return answer.completion is not None and answer.completion.ended and bool(answer.completion.text)


def tokens_of(answer: Asked) -> int:
    """Tokens of an answer by the server's count, else the events that carried text."""
    if answer.completion is None:
        return 0
    usage = answer.completion.usage
    return (usage.completion_tokens if usage is not None else None) or answer.completion.chunks
