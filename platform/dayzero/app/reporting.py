"""Reports by what people call them: an entry, an adaptation, or a file."""

from dataclasses import replace
from pathlib import Path

from dayzero.app.planes import Plane, control_bench
from dayzero.domain.adaptation import Lease
from dayzero.domain.entry_report import Report
from dayzero.errors import BadInputError, NotFoundError
from dayzero.steps.reporting import gathered, identified, read_report, report_here


def report_named(plane: Plane, name: str) -> Report:
    """The report of an entry by its id or the beginning of it, else of an adaptation: NotFoundError, BadInputError."""
    try:
        entry = plane.compatibility.entry(name)
    except NotFoundError:
        return _of_adaptation(plane, name)
    row = next(
        row for row in plane.compatibility.history(entry.key.model, entry.key.platform) if str(row["entry_id"]).startswith(name)
    )
    release = plane.ledger.release(str(row["release_id"]))
    stacks = plane.compatibility.stacks(entry.key.platform)
    report = gathered(entry, plane.ledger, str(row["adaptation_id"]), stacks, release, plane.artifacts)
    return identified(report, row)


def _of_adaptation(plane: Plane, name: str) -> Report:
    """What an adaptation has found: the newest entry that it made, or what its checks say so far."""
    found = [one for one in plane.catalog.adaptations() if name and one.id.startswith(name)]
    if not found:
        raise NotFoundError(
            f"there is no entry and no adaptation {name[:80]!r}.",
            remedy="See `dayzero compat ls` and `dayzero run ls`, or name a file of `dayzero verify … --report`.",
        )
    if len(found) > 1:
        raise BadInputError(f"{len(found)} adaptations have ids that begin with {name}.", remedy="Give more of the id.")
    adaptation = found[0]
    for row in plane.compatibility.history(adaptation.model, adaptation.platform):
        if row["adaptation_id"] == adaptation.id:
            return report_named(plane, str(row["entry_id"]))
    lease = Lease(adaptation.id, adaptation.attempt, adaptation.claimant or "")
    report = report_here(control_bench(plane), lease)
    return replace(report, recorded_at=adaptation.finished_at)


def report_from(path: Path) -> Report:
    """The report in a file; BadInputError when it is not there or none."""
    try:
        return read_report(path.read_bytes(), str(path))
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read: {error.strerror}.", remedy="`dayzero verify … --report FILE.json` writes one."
        ) from error
