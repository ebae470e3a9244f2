"""From the text of a predicate to its parts; whatever is wrong is said with its position."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dayzero.errors import BadInputError
from dayzero.stages.predicates.tree import (
    And,
    Comparison,
    Everything,
    FieldKind,
    Membership,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
)

MAX_CHARACTERS = 4000
MAX_DEPTH = 32
MAX_COMPARISONS = 200

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator><=|>=|!=|=|~|<|>)
      | (?P<mark>[(),])""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(("and", "or", "not", "in"))
_ORDERINGS = frozenset((Operator.BELOW, Operator.AT_MOST, Operator.ABOVE, Operator.AT_LEAST))
_EQUALITIES = frozenset((Operator.EQUAL, Operator.UNEQUAL))
_ALLOWED = {
    FieldKind.TEXT: _EQUALITIES | {Operator.LIKE},
    FieldKind.NUMBER: _EQUALITIES | _ORDERINGS,
    FieldKind.TIME: _EQUALITIES | _ORDERINGS,
}
_REMEDY = 'Write comparisons like model ~ "org/*" joined by and, or, not and parentheses; text and dates stand in quotes.'


@dataclass(frozen=True, slots=True)
class _Token:
    """One word of the text; `at` counts characters from 1."""

    kind: str
    text: str
    at: int


def _bad(message: str, at: int | None = None) -> BadInputError:
    where = f" at character {at}" if at is not None else ""
    return BadInputError(f"The filter is wrong{where}: {message}.", remedy=_REMEDY)


def _short(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "…")


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            unclosed = text[position] in "\"'"
            raise _bad(
                "this quotation mark is never closed" if unclosed else f"{_short(text[position])} is not understood",
                position + 1,
            )
        kind = match.lastgroup or ""
        word = match.group()
        if kind == "word" and word.lower() in _KEYWORDS:
            kind, word = "keyword", word.lower()
        if kind != "space":
            found.append(_Token(kind, word, position + 1))
        position = match.end()
    found.append(_Token("end", "", len(text) + 1))
    return found


def _unquoted(token: _Token) -> str:
    """The text inside quotation marks; a backslash keeps the next character as it is."""
    text = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise _bad("the text holds a character that no field can hold", token.at)
    return text


def _moment(token: _Token) -> datetime:
    text = _unquoted(token)
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _bad(f"{_short(text)} is no ISO date or time such as 2026-01-31 or 2026-01-31T12:00:00Z", token.at) from error


class _Parser:
    """Recursive descent over the tokens; depth and size are bounded, so that no text can exhaust the stack."""

    def __init__(self, text: str, fields: Mapping[str, FieldKind]) -> None:
        self._tokens = _tokens(text)
        self._fields = fields
        self._next = 0
        self._depth = 0
        self._comparisons = 0

    def whole(self) -> Predicate:
        """The predicate of the whole text."""
        if self._peek().kind == "end":
            return Everything()
        predicate = self._alternatives()
        rest = self._peek()
        if rest.kind != "end":
            raise _bad(f"expected and, or, or the end, found {_short(rest.text)}", rest.at)
        return predicate

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, kind: str, text: str) -> bool:
        token = self._peek()
        if token.kind == kind and token.text == text:
            self._next += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        token = self._peek()
        if not self._accept("mark", mark):
            raise _bad(f"expected {mark}, found {_found(token)}", token.at)

    def _alternatives(self) -> Predicate:
        terms = [self._conjunction()]
        while self._accept("keyword", "or"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunction(self) -> Predicate:
        terms = [self._term()]
        while self._accept("keyword", "and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _term(self) -> Predicate:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _bad(f"it is nested deeper than {MAX_DEPTH} levels", self._peek().at)
        try:
            if self._accept("keyword", "not"):
                return Not(self._term())
            if self._accept("mark", "("):
                inner = self._alternatives()
                self._expect(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Predicate:
        name = self._take()
        if name.kind != "word":
            raise _bad(f"expected a field, found {_found(name)}", name.at)
        kind = self._fields.get(name.text)
        if kind is None:
            known = ", ".join(sorted(self._fields)) or "none"
            raise _bad(f"there is no field {_short(name.text)}; the fields are {known}", name.at)
        token = self._take()
        if token.kind == "keyword" and token.text in ("in", "not"):
            return self._membership(name.text, kind, token)
        if token.kind != "operator":
            raise _bad(f"expected a comparison after {name.text}, found {_found(token)}", token.at)
        operator = Operator(token.text)
        if operator not in _ALLOWED[kind]:
            allowed = " ".join(sorted(_ALLOWED[kind]))
            raise _bad(f"{name.text} holds a {kind.value}, which {operator.value} cannot compare (only {allowed})", token.at)
        return Comparison(name.text, kind, operator, self._value(name.text, kind))

    def _membership(self, field: str, kind: FieldKind, token: _Token) -> Predicate:
        if token.text == "not" and not self._accept("keyword", "in"):
            raise _bad(f"expected in after {field} not", token.at)
        self._expect("(")
        values = [self._value(field, kind)]
        while self._accept("mark", ","):
            values.append(self._value(field, kind))
        self._expect(")")
        member = Membership(field, kind, tuple(values))
        return Not(member) if token.text == "not" else member

    def _value(self, field: str, kind: FieldKind) -> Value:
        self._comparisons += 1
        token = self._take()
        if self._comparisons > MAX_COMPARISONS:
            raise _bad(f"it holds more than {MAX_COMPARISONS} values", token.at)
        if kind is FieldKind.NUMBER and token.kind == "number":
            number = float(token.text)
            if not math.isfinite(number):
                raise _bad("this number is too large", token.at)
            return number
        if kind is not FieldKind.NUMBER and token.kind == "text":
            return _unquoted(token) if kind is FieldKind.TEXT else _moment(token)
        wanted = {FieldKind.TEXT: "text in quotes", FieldKind.NUMBER: "a number", FieldKind.TIME: "a date in quotes"}[kind]
        raise _bad(f"{field} is compared with {wanted}, found {_found(token)}", token.at)


def _found(token: _Token) -> str:
    return "the end" if token.kind == "end" else _short(token.text)


def parse(text: str, fields: Mapping[str, FieldKind]) -> Predicate:
    """The predicate that the text writes, over these fields and no others; empty text matches everything.

    Raises BadInputError, and nothing else, with the position (characters from 1) and, for an unknown field, the known ones.
    Limits: 4000 characters, 32 levels of nesting, 200 values.
    """
    if len(text) > MAX_CHARACTERS:
        raise _bad(f"it has {len(text)} characters, more than {MAX_CHARACTERS}")
    return _Parser(text, fields).whole()
