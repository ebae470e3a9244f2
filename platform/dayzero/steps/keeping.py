"""Results are found again by what they were computed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dayzero.codec import dump, load
from dayzero.domain.adaptation import Lease
from dayzero.domain.results import ResultKey
from dayzero.ports.ledger import Ledger

Noun = TypeVar("Noun")


@dataclass(frozen=True, slots=True)
class Kept(Generic[Noun]):
    """A noun from the ledger, and whether it was found there instead of computed now."""

    noun: Noun
    reused: bool


def keep(ledger: Ledger, lease: Lease, key: ResultKey, noun: type[Noun], compute: Callable[[], Noun]) -> Kept[Noun]:
    """The result of that key: found and linked, or computed, stored and linked."""
    found = ledger.find_result(key)
    if found is not None:
        ledger.link_result(found, lease)
        return Kept(load(noun, found.document), reused=True)
    value = compute()
    stored = ledger.put_result(key, dump(value), lease)
    return Kept(load(noun, stored.document), reused=False)
