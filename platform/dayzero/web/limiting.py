"""How much one caller may ask of the door: reads, writes and wrong tokens, each in a minute.

A caller is a token that was good before, else an address. Counters lie in a fixed number of slots, so that no flood
of callers takes more memory; which slot is whose nobody outside can foresee.
"""

import asyncio
import hashlib
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dayzero.adapters.notify.networks import parse_networks
from dayzero.adapters.remote.wire import PREFIX
from dayzero.settings import Settings
from dayzero.web.problems import answer_error
from dayzero.web.shown_tokens import token_was_good
from dayzero.web.viewers import COOKIE

HTTP_TOO_MANY = 429
WINDOW_S = 60
SLOTS = 4096
MAX_KNOWN = 10_000
DELAY_S = 1.0
_FREE = ("/static/",)
_SAFE = ("GET", "HEAD", "OPTIONS")
_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may do in a minute (0: as much as it likes), and the networks that may do all."""

    reads: int = 0
    writes: int = 0
    wrong_tokens: int = 0
    unlimited: tuple[IPv4Network | IPv6Network, ...] = ()


def limits_from(settings: Settings) -> Limits:
    """The limits that the settings name; BadInputError for a network that is none."""
    return Limits(
        settings.reads_per_minute,
        settings.writes_per_minute,
        settings.wrong_tokens_per_minute,
        parse_networks(settings.unlimited_networks).allowed,
    )


@dataclass(frozen=True, slots=True)
class _Caller:
    address: str
    token: str | None
    known: bool
    free: bool

    @property
    def key(self) -> str:
        return f"token {self.token}" if self.known else f"address {self.address}"


class Limiting:
    """ASGI middleware: 429 with `Retry-After` for who asks too much; `RateLimit` headers say how much is left.

    Workers' calls of the ledger are under the limit of wrong tokens alone. A caller in an unlimited network that shows too many
    of those is not refused: its wrong tokens are answered late.
    """

    def __init__(self, app: ASGIApp, limits: Limits, slots: int = SLOTS) -> None:
        self._app = app
        self._counters = _Counters(slots)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._unlimited = limits.unlimited
        self._wrong = _rule("wrong-tokens", limits.wrong_tokens)
        self._rules = {"reads": _rule("reads", limits.reads), "writes": _rule("writes", limits.writes)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["path"].startswith(_FREE):
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        caller = self._caller(scope)
        slowed = self._wrong is not None and not self._counters.has_room(self._wrong, caller.address)
        if slowed and caller.token is not None and not caller.known and not caller.free:
            assert self._wrong is not None
            await self._refuse(scope, receive, send, self._wrong, caller, "tokens that are not good")
            return
        rule = self._rule_for(scope, caller)
        if rule is not None and not self._counters.take(rule, caller.key) and not self._is_new(caller):
            await self._refuse(scope, receive, send, rule, caller, rule.name)
            return
        await self._app(scope, receive, _Answer(self, scope, send, rule, caller, slowed).take)

    def _is_new(self, caller: _Caller) -> bool:
        """Whether a token is looked at though its address has no room left: as many a minute as may be wrong."""
        if caller.token is None or caller.known or self._wrong is None:
            return False
        return self._counters.take(_Rule("new-tokens", self._wrong.item), caller.address)

    def _rule_for(self, scope: Scope, caller: _Caller) -> "_Rule | None":
        if caller.free or scope["path"].startswith(PREFIX):
            return None
        return self._rules["reads" if scope["method"] in _SAFE else "writes"]

    def _caller(self, scope: Scope) -> _Caller:
        address = _address_of(scope["client"][0] if scope.get("client") else "")
        token = _token_of(Request(scope))
        digest = None if token is None else hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        known = digest is not None and digest in self._known
        if digest is not None and known:
            self._known.move_to_end(digest)
        free = address is not None and any(address in one for one in self._unlimited if one.version == address.version)
        return _Caller(_network_of(address), digest, known, free)

    def learn(self, scope: Scope, caller: _Caller) -> bool:
        """Keep how the check of the request's token ended; whether it was a wrong one."""
        good = token_was_good(scope)
        if good and caller.token is not None:
            self._known[caller.token] = None
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        if good is False:
            self._known.pop(caller.token or "", None)
            if self._wrong is not None:
                self._counters.take(self._wrong, caller.address)
        return good is False

    def headers_for(self, rule: "_Rule", caller: _Caller) -> Mapping[str, str]:
        """What is left to the caller, as draft-ietf-httpapi-ratelimit-headers writes it."""
        left, wait_s = self._counters.left(rule, caller.address if rule is self._wrong else caller.key)
        return {
            "ratelimit-policy": f'"{rule.name}";q={rule.item.amount};w={WINDOW_S}',
            "ratelimit": f'"{rule.name}";r={left};t={wait_s}',
        }

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, rule: "_Rule", caller: _Caller, what: str) -> None:
        by_address = rule is self._wrong or not caller.known
        _, wait_s = self._counters.left(rule, caller.address if rule is self._wrong else caller.key)
        whose = "this address" if by_address else "this token"
        hint = "; a good token has a limit of its own" if by_address and rule is not self._wrong else ""
        said = f"more than {rule.item.amount} {what} in a minute from {whose}: wait {wait_s} s{hint}."
        answer = answer_error(Request(scope), HTTPException(HTTP_TOO_MANY, said))
        answer.headers.update({"retry-after": str(wait_s), **self.headers_for(rule, caller)})
        await answer(scope, receive, send)


class _Answer:
    """An answer on its way out: what became of the token is learned, and what is left is said."""

    def __init__(
        self, limiting: Limiting, scope: Scope, send: Send, rule: "_Rule | None", caller: _Caller, slowed: bool
    ) -> None:
        self._limiting, self._scope, self._send = limiting, scope, send
        self._rule, self._caller, self._slowed = rule, caller, slowed

    async def take(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            wrong = self._limiting.learn(self._scope, self._caller)
            if wrong and self._slowed:
                await asyncio.sleep(DELAY_S)
            if self._rule is not None:
                headers = MutableHeaders(raw=list(message["headers"]))
                headers.update(self._limiting.headers_for(self._rule, self._caller))
                message = {**message, "headers": headers.raw}
        await self._send(message)


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    item: RateLimitItemPerMinute


class _Counters:
    """Counts of the last minute in a fixed number of slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._salt = secrets.token_bytes(16)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def take(self, rule: _Rule, key: str) -> bool:
        """Count one; False where there is no room for it."""
        return self._limiter.hit(rule.item, rule.name, self._slot(key))

    def has_room(self, rule: _Rule, key: str) -> bool:
        """Whether one more would be counted."""
        return self._limiter.test(rule.item, rule.name, self._slot(key))

    def left(self, rule: _Rule, key: str) -> tuple[int, int]:
        """How many more there is room for now, and the whole seconds (1 at least) until there is for another."""
        found = self._limiter.get_window_stats(rule.item, rule.name, self._slot(key))
        return int(found.remaining), min(WINDOW_S, max(1, math.ceil(found.reset_time - time.time())))

    def _slot(self, key: str) -> str:
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=8).digest()
        return str(int.from_bytes(digest, "big") % self._slots)


def _rule(name: str, per_minute: int) -> _Rule | None:
    return _Rule(name, RateLimitItemPerMinute(per_minute)) if per_minute else None


def _token_of(request: Request) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind:
        return text.strip() or kind
    return request.cookies.get(COOKIE) or None


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _network_of(address: IPv4Address | IPv6Address | None) -> str:
    """What callers are told apart by: of IPv6 the network, since one customer has all of it."""
    if isinstance(address, IPv6Address):
        return f"{int(address) >> _NETWORK_BITS:x}/{_NETWORK_BITS}"
    return str(address)
