"""What bridging an operator would unlock: other models whose newest coverage on the platform lacks it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from dayzero.codec import dump
from dayzero.domain.adaptation import Adaptation, AdaptationState, Purpose
from dayzero.domain.operators import CoverageReport, Gap
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.verdict import Grade, Mode
from dayzero.stages.coverage.ranking import with_models
from dayzero.steps.lacking import lacking

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ResultKey("coverage", 2, "0" * 64)


def gap(operator: str, share: float = 0.5) -> Gap:
    return Gap(operator, "no kernel", None, share, 1, ("layers.*",), cost=1.0, share=share)


def report(*operators: str) -> CoverageReport:
    return CoverageReport("far", "d" * 64, Grade.DECLARED, (), tuple(map(gap, operators)), 0.5)


def adaptation(number: int, model: str, platform: str = "far") -> Adaptation:
    return Adaptation(
        id=str(number), purpose=Purpose.PRESTAGE, release_id=str(number), content_id="c" * 64, model=model, platform=platform,
        mode=Mode.INFERENCE, state=AdaptationState.DONE, attempt=1, requested_at=NOW,
    )  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """Adaptations, the newest first, with the coverage documents of each."""

    documents: dict[Adaptation, tuple[bytes, ...]]

    def adaptations(self) -> tuple[Adaptation, ...]:
        return tuple(self.documents)

    def linked_results(self, adaptation_id: str) -> tuple[StoredResult, ...]:
        found = next(held for known, held in self.documents.items() if known.id == adaptation_id)
        return tuple(StoredResult(str(place), KEY, document, NOW) for place, document in enumerate(found))


def counted(documents: dict[Adaptation, tuple[bytes, ...]], model: str = "org/new") -> dict[str, int]:
    recorded = Recorded(documents)
    return dict(lacking(recorded, recorded, "far", model))


def test_other_models_of_the_platform_are_counted_once_by_their_newest_coverage() -> None:
    assert counted({
        adaptation(1, "org/one"): (dump(report("sort", "topk")), dump(report("topk"))),
        adaptation(2, "org/one"): (dump(report("sort")),),
        adaptation(3, "org/two"): (dump(report("topk", "fft")),),
        adaptation(4, "org/new"): (dump(report("topk")),),
        adaptation(5, "org/far", platform="near"): (dump(report("topk")),),
        adaptation(6, "org/none"): (),
    }) == {"topk": 2, "fft": 1}  # fmt: skip


def test_a_coverage_of_an_older_shape_counts_for_nothing() -> None:
    assert counted({adaptation(1, "org/old"): (b'{"graph":1}',), adaptation(2, "org/two"): (dump(report("fft")),)}) == {
        "fft": 1
    }


def test_what_others_lack_changes_the_ranking() -> None:
    both = replace(report(), gaps=(gap("sort", 0.5), gap("topk", 0.2)))
    ranked = with_models(both, {"topk": 3}).gaps
    assert [(one.operator, one.models) for one in ranked] == [("topk", 4), ("sort", 1)]
    assert ranked[0].score == pytest.approx(0.8)
