"""What a search refused: how many of each family, a few of each with their reason, and the one that came nearest."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dayzero.domain.plan import MemoryBudget, RejectedFamily, Rejection
from dayzero.domain.planning import Degrees
from dayzero.stages.planning.ranking import Candidate

KEPT_OF_A_FAMILY = 5


@dataclass(slots=True)
class Refusals:
    """Counts every refusal by family and keeps the first few of each, and the one that came nearest."""

    kept_of_a_family: int = KEPT_OF_A_FAMILY
    count: int = 0
    _families: dict[str, list[Rejection]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _nearest: dict[str, tuple[float, Rejection]] = field(default_factory=dict)

    def add(self, rejection: Rejection, distance: float = 0.0) -> None:
        """One candidate that was refused; the smaller the distance, the nearer it came."""
        family = rejection.family
        self.count += 1
        self._counts[family] = self._counts.get(family, 0) + 1
        kept = self._families.setdefault(family, [])
        if len(kept) < self.kept_of_a_family:
            kept.append(rejection)
        if family not in self._nearest or distance < self._nearest[family][0]:
            self._nearest[family] = (distance, rejection)

    def nearest_of(self, family: str) -> float:
        """How near the nearest of a family came."""
        return self._nearest[family][0] if family in self._nearest else float("inf")

    def judge(self, family: str, distance: float, refuse: Callable[[], Rejection]) -> None:
        """One candidate that was refused, whose words are made only where they are kept: for one of the first of its family,
        or the nearest."""
        if len(self._families.get(family, ())) < self.kept_of_a_family or distance < self.nearest_of(family):
            self.add(refuse(), distance)
        else:
            self.more(family, 1)

    def more(self, family: str, count: int) -> None:
        """So many more of a family, of which others are kept."""
        self.count += count
        self._counts[family] = self._counts.get(family, 0) + count

    @property
    def kept(self) -> tuple[Rejection, ...]:
        """A few of each family, the nearest among them."""
        found: list[Rejection] = []
        for family, kept in self._families.items():
            nearest = self._nearest[family][1]
            found += [*kept, *(() if nearest in kept else (nearest,))]
        return tuple(found)

    @property
    def families(self) -> tuple[RejectedFamily, ...]:
        """All families, the largest first."""
        ranked = sorted(self._counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple(RejectedFamily(family, count, self._nearest[family][1]) for family, count in ranked)


def too_slow(candidate: Candidate, family: str, seconds: float, target_s: float) -> Rejection:
    """The refusal of a plan that misses a target."""
    degrees, least = candidate.degrees, "at least " if candidate.bounded else ""
    numbers: dict[str, int | float | str | None] = {f"{family}_s": seconds, "target_s": target_s}
    return Rejection(degrees, family, f"{degrees}: {family} {least}{seconds:.4g} s, {target_s:.4g} s asked for", numbers)


def short_of_memory(degrees: Degrees, budget: MemoryBudget, limit_bytes: int) -> Rejection:
    """The refusal of a plan whose fullest rank needs too much."""
    short = budget.total_bytes - limit_bytes
    on_device = {name: size for name, size in budget.items_bytes.items() if not name.startswith("host_")}
    item, largest = max(on_device.items(), key=lambda pair: pair[1])
    reason = (f"rank {budget.rank} needs {budget.total_bytes} bytes of {limit_bytes}: short by {short}, "
              f"the largest item is {item} with {largest}")  # fmt: skip
    return Rejection(degrees, "memory", reason, {"limit_bytes": limit_bytes, "short_bytes": short, **{
        f"{name}_bytes": size for name, size in budget.items_bytes.items()}})  # fmt: skip
