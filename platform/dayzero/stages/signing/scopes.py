"""From the groups that a provider names to a scope, by the operator's table."""

from collections.abc import Iterable, Mapping

from dayzero.domain.access import Scope

EVERYBODY = "*"
_RANKS = (Scope.READ, Scope.WRITE, Scope.ADMIN)


def scope_of(groups: Iterable[str], table: Mapping[str, Scope]) -> Scope | None:
    """The widest scope that the table gives to one of the groups, or to everybody (`*`); None where it gives none."""
    given = [table[group] for group in (*groups, EVERYBODY) if group in table]
    return max(given, key=_RANKS.index, default=None)
