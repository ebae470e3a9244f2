"""Reports as documented JSON."""

from dayzero.domain.canonical import Json, plain
from dayzero.domain.told_results import Report
from dayzero.domain.verdict import Grade

SCHEMA = "dayzero.reports/1"


def shown_report(report: Report) -> dict[str, Json]:
    """The claim's fields beside who says so, and its grade, which is never more than declared."""
    claim = plain(report.claim)
    assert isinstance(claim, dict), "a claim is an object"
    return {
        "id": report.id,
        "kind": report.kind.value,
        "grade": Grade.DECLARED.value,
        "state": report.state.value,
        **claim,
        "created_at": plain(report.created_at),
        "judged_at": plain(report.judged_at),
        "why": report.why,
    }
