"""The report of an entry or a run, and the difference of two, as pages: of the server, or files that stand alone."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from dayzero.domain.canonical import Json, plain
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.entry_report import Report, ReportDiff
from dayzero.domain.told_results import Report as Told
from dayzero.stages.reporting.differing import MOVED
from dayzero.stages.reporting.picture_bars import performance_picture
from dayzero.stages.reporting.picture_layers import layers_picture
from dayzero.stages.reporting.picture_memory import memory_picture
from dayzero.stages.reporting.style import PLOT_STYLE
from dayzero.web.frame import PAGE_HEADERS, cut, page, pages, span

Row = Mapping[str, object]

CLOCK = ("announced_at", "config_seen_at", "weights_live_at", "detected_at", "staged_at", "first_token_at", "verified_at",
         "notified_at")  # fmt: skip
MOST_VERSIONS = 50

PAGE_STYLE = (
    PLOT_STYLE
    + """
p, li, bdi, dd, h1 { overflow-wrap: anywhere; } td { overflow-wrap: break-word; }
td.why { overflow-wrap: anywhere; min-width: 20rem; }
thead th.number { text-align: right; } tr.changed { background: var(--half-soft); }
dl.clock { grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dl.clock dd { margin: 0; }
.plots { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; }
figure { margin: 0; flex: 1 1 22rem; max-width: 38rem; min-width: 0; }
details { margin: .4rem 0; } summary { cursor: pointer; }
"""
)
"""What pages of entries have beside the sheet of all pages: their plots, and tables that scroll before words are cut."""


def _digest(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


PLOT_HEADERS = {
    "content-security-policy": PAGE_HEADERS["content-security-policy"].replace(
        "style-src 'self'", f"style-src 'self' '{_digest(PAGE_STYLE)}'"
    )
}
"""The one style that stands on the page itself, that of its plots, counts by its digest; no other does."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A report as a template takes it: plain values, and its plots drawn. It follows from the report alone."""

    report: Json
    plots: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Around:
    """What the server knows beside the report: the row of the list, other versions, the run and where Prefect shows it, and
    what others say of the model on the platform."""

    row: Row
    history: Sequence[Row] = ()
    drawn: bool = False
    run_link: str | None = None
    said: Sequence[Told] = ()


def shown_of(report: Report) -> Shown:
    """The report with its plots."""
    layers = [
        (plain(series), Markup(layers_picture(series, name=f"layers{number}-")))
        for number, series in enumerate(report.layers)
    ]  # fmt: skip
    memory = [Markup(memory_picture(series, name=f"memory{number}-")) for number, series in enumerate(report.memory)]
    bars = performance_picture(report.entry.measurements, name="performance-")
    plots = {"layers": layers, "memory": memory, "performance": Markup(bars) if bars else None}
    return Shown(plain(report), plots)


def entry_page(report: Report, shown: Shown, around: Around) -> HTMLResponse:
    """One entry as a page of the server."""
    others = [plain(row) for row in around.history[:MOST_VERSIONS]]
    adaptation = around.row.get("adaptation_id")
    return _styled(
        "entry.html",
        title=_title(report),
        linked=True,
        drawn=around.drawn,
        history=others,
        history_left=max(len(around.history) - MOST_VERSIONS, 0),
        run={"id": str(adaptation), "link": around.run_link} if adaptation else None,
        said=around.said,
        **_values(report, shown, around.row),
    )


def no_entry_page(problem: str, status: int) -> HTMLResponse:
    """The page of an entry that is not there."""
    return _styled(
        "entry.html",
        title="Entry",
        problem=problem,
        status=status,
        report=None,
    )


def report_file(report: Report) -> str:
    """The report as one file: nothing is loaded, nothing runs."""
    return _alone("report_body.html", _title(report), {**_values(report, shown_of(report), None), "drawn": False})


def diff_page(diff: ReportDiff) -> HTMLResponse:
    """The difference of two entries as a page of the server."""
    return _styled(
        "diff.html",
        title=_diff_title(diff),
        linked=True,
        **_diff_values(diff),
    )


def no_diff_page(problem: str, status: int) -> HTMLResponse:
    """The page of a difference where one of the two entries is not there."""
    return _styled(
        "diff.html",
        title="Difference",
        problem=problem,
        status=status,
        diff=None,
    )


def diff_file(diff: ReportDiff) -> str:
    """The difference as one file."""
    return _alone("diff_body.html", _diff_title(diff), _diff_values(diff))


def _styled(template: str, **values: Any) -> HTMLResponse:
    """A page of the server that may draw plots."""
    return page(template, headers=PLOT_HEADERS, page_style=Markup(PAGE_STYLE), **values)


def _title(report: Report) -> str:
    return f"{cut(report.entry.key.model)} on {report.entry.key.platform}"


def _diff_title(diff: ReportDiff) -> str:
    if diff.a.name == diff.b.name:
        return f"{cut(diff.a.name, 160)}: what differs"
    return f"{cut(diff.a.name, 90)} against {cut(diff.b.name, 90)}"


def _values(report: Report, shown: Shown, row: Row | None) -> dict[str, Any]:
    values: dict[str, Json] = shown.report if isinstance(shown.report, dict) else {}
    clock = [(name.removesuffix("_at").replace("_", " "), _at(report.entry, row, name)) for name in CLOCK]
    live, verified = _at(report.entry, row, "weights_live_at"), _at(report.entry, row, "verified_at")
    took = (verified - live).total_seconds() if isinstance(live, datetime) and isinstance(verified, datetime) else None
    baseline = next((one.numbers["baseline"] for one in report.entry.checks if one.numbers.get("baseline")), None)
    return {
        "report": values,
        "entry": values.get("entry"),
        "plots": shown.plots,
        "plan": str(report.entry.key.plan),
        "clock": clock,
        "verified_in": None if took is None else span(took),
        "baseline": baseline,
    }


def _at(entry: CompatibilityEntry, row: Row | None, name: str) -> object:
    """A moment of the clock: as the list knows it, for the last of them come after the entry was recorded."""
    return row[name] if row is not None and row.get(name) is not None else getattr(entry.clock, name)


def _diff_values(diff: ReportDiff) -> dict[str, Any]:
    return {"diff": plain(diff), "changed": sum(one.changed for one in diff.checks), "moved_by": MOVED}


def _alone(body: str, title: str, values: Mapping[str, object]) -> str:
    style = (Path(__file__).parent / "static" / "dayzero.css").read_text(encoding="utf-8") + PAGE_STYLE
    given = {
        "title": title, "body": body, "style": Markup(style), "style_hash": Markup(_digest(style)), "linked": False,
        "version": version("dayzero"), "now": datetime.now(UTC), "history": [], "history_left": 0, "run": None,
    }  # fmt: skip
    return pages().get_template("alone.html").render({**given, **values})
