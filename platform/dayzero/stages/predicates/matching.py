"""One small typed predicate grammar, for watch rules, subscriptions and compatibility queries.

    predicate  := term { ("and" | "or") term }          "and" binds tighter than "or"
    term       := "not" term | "(" predicate ")" | comparison
    comparison := field ("=" | "!=" | "~" | "<" | "<=" | ">" | ">=") value | field ["not"] "in" "(" value {"," value} ")"
    value      := "text" | 'text' | number | "ISO date or time"

A field that a row lacks (or that is None) is unknown: no comparison with it matches, and neither does its `not`.
The SQL of the same predicate (adapters/store/predicate_sql.py) judges every row alike; a property test holds the two together.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from dayzero.stages.predicates.tree import And, Everything, FieldKind, Membership, Not, Operator, Or, Predicate, Value


def matches(predicate: Predicate, row: Mapping[str, object]) -> bool:
    """Whether the row surely matches; what cannot be told does not match.

    Numbers compare as doubles; a moment may be a datetime (naive: UTC) or its ISO text; a value of another type is unknown.
    """
    return _judge(predicate, row) is True


def _judge(predicate: Predicate, row: Mapping[str, object]) -> bool | None:
    """True, False, or None where unknown (Kleene's logic, as SQL has it)."""
    if isinstance(predicate, Everything):
        return True
    if isinstance(predicate, Not):
        inner = _judge(predicate.term, row)
        return None if inner is None else not inner
    if isinstance(predicate, And | Or):
        verdicts = [_judge(term, row) for term in predicate.terms]
        decisive = isinstance(predicate, Or)
        if decisive in verdicts:
            return decisive
        return None if None in verdicts else not decisive
    actual = _typed(row.get(predicate.field), predicate.kind)
    if actual is None:
        return None
    if isinstance(predicate, Membership):
        return actual in predicate.values
    return _compare(actual, predicate.operator, predicate.value)


def _typed(value: object, kind: FieldKind) -> Value | None:
    """The row's value as its kind, or None where it is not of that kind."""
    if kind is FieldKind.TEXT:
        return str(value) if isinstance(value, str) else None
    if kind is FieldKind.NUMBER:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return None if math.isnan(number) else number
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            return None
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _compare(actual: Value, operator: Operator, wanted: Value) -> bool:
    if operator is Operator.LIKE:
        return _like(str(actual), str(wanted))
    if operator is Operator.EQUAL:
        return actual == wanted
    if operator is Operator.UNEQUAL:
        return actual != wanted
    below = _below(actual, wanted)
    if operator in (Operator.BELOW, Operator.AT_LEAST):
        return below if operator is Operator.BELOW else not below
    above = _below(wanted, actual)
    return above if operator is Operator.ABOVE else not above


def _below(left: Value, right: Value) -> bool:
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left < right
    assert isinstance(left, float) and isinstance(right, float), "only numbers and moments have an order"
    return left < right


def _like(text: str, pattern: str) -> bool:
    """Shell pattern with `*` and `?` alone; in time len(text) × len(pattern) at worst, so that no pattern can stall."""
    at = wanted = 0
    star = resume = -1
    while at < len(text):
        if wanted < len(pattern) and pattern[wanted] == "*":
            star, resume = wanted, at
            wanted += 1
        elif wanted < len(pattern) and pattern[wanted] in ("?", text[at]):
            at += 1
            wanted += 1
        elif star >= 0:
            resume += 1
            at, wanted = resume, star + 1
        else:
            return False
    return all(character == "*" for character in pattern[wanted:])
