"""The frame of every page: templates, one style sheet, headers that let nothing foreign run, and words for hostile strings.

A page is a template under `templates/` that extends `frame.html`, rendered by `page`. Jinja escapes every value; `name`
isolates and cuts what a hub supplied, `status` writes a state as text beside its colour, `ago` an age.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from dayzero.domain.listing import Cell
from dayzero.errors import NotFoundError
from dayzero.stages.bundle.escape import clean
from dayzero.web.figures import FILTERS

PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Only this server's own files are loaded, no inline script or style counts, and nothing is sent elsewhere."""

NAVIGATION: tuple[tuple[str, str], ...] = (
    ("/", "dayzero"),
    ("/platforms", "Platforms"),
    ("/releases", "Releases"),
    ("/runs", "Adaptations"),
    ("/queue", "Queue"),
    ("/clock", "Clock"),
    ("/failures", "Failures"),
    ("/subscribe", "Subscribe"),
    ("/method", "Method"),
    ("/session", "Token"),
)
"""Path and name of what stands at the top of every page, the first one being the matrix."""

STATIC = {"dayzero.css": "text/css; charset=utf-8", "dayzero.svg": "image/svg+xml", "runs.js": "text/javascript"}
NAME_CHARACTERS = 120
_HERE = Path(__file__).parent
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_MONTHS_DAYS = 90


def page(
    template: str,
    *,
    title: str,
    here: str = "",
    problem: str | None = None,
    heading: str | None = None,
    status: int = 200,
    now: datetime | None = None,
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """The template as an answer. `here` is the path that the navigation marks; `now` is what ages are counted from."""
    given = {"title": title, "here": here, "problem": problem, "heading": heading, "now": now or datetime.now(UTC)}
    text = pages().get_template(template).render(given | values)
    return HTMLResponse(text, status, {**PAGE_HEADERS, **(headers or {})})


def static_router() -> APIRouter:
    """`/static/NAME`: the style sheet, the script and the icon, cached for as long as their content stays."""
    routes = APIRouter()

    @routes.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in STATIC:
            raise NotFoundError("there is no such file.")
        headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
        return Response(_file(name), media_type=STATIC[name], headers=headers)

    return routes


def cut(text: object, characters: int = NAME_CHARACTERS) -> str:
    """One line of at most so many characters, in which control and direction marks are made visible."""
    line = str(text)[: characters + 1]
    line = line if line.isprintable() else clean(line)
    return line if len(line) <= characters else line[: characters - 1] + "…"


def name(text: object, characters: int = NAME_CHARACTERS) -> Markup:
    """A hub's string, isolated so that its direction touches nothing else, and cut; the beginning of the rest on hover."""
    line = cut(text, characters)
    whole = f' title="{escape(cut(text, 1000))}"' if len(str(text)) > characters else ""
    return Markup(f"<bdi{whole}>{escape(line)}</bdi>")


@lru_cache(maxsize=256)
def status(word: object) -> Markup:
    """A state as its word; colour and mark come from the style sheet."""
    text = escape(cut(word, 40))
    kind = text if text.replace("_", "").isalnum() else ""
    return Markup(f'<span class="status {kind}">{text}</span>')


@pass_context
def cells(context: Context, by_platform: Mapping[str, Cell], platforms: Sequence[str]) -> Markup:
    """A line of the matrix: for each platform the best state in words, how far it has come, and its age."""
    now = context["now"]
    # A page holds hundreds of these: the words are made once, and the rest has nothing to escape.
    return Markup("".join(_cell(by_platform.get(platform), now) for platform in platforms))


def _cell(best: Cell | None, now: datetime) -> str:
    if best is None:
        return '<td class="dim">–</td>'
    old = age(best.recorded_at, now)
    counted = old if best.entries == 1 else f"{old} · 1 of {best.entries}"
    words = _words(best.correctness, best.lifecycle, best.freshness)
    return f'<td><a href="/compat/{escape(best.entry_id)}">{words}<span class="age">{counted}</span></a></td>'


@lru_cache(maxsize=256)
def _words(correctness: str, lifecycle: str, freshness: str) -> Markup:
    states = [correctness] if lifecycle == "done" else [correctness, lifecycle]
    return Markup(" ").join(status(word) for word in (*states, *(("stale",) if freshness == "stale" else ())))


def known(value: object) -> str:
    """A figure as people read it; a dash for what nobody knows."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else str(value)


def span(seconds: float) -> str:
    """A span of time in its two largest units at most: 3 d, 5 h, 12 min, 8 s."""
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def age(moment: datetime, now: datetime) -> str:
    """How long ago: in days for three months, then the date; what lies ahead (another clock) counts as now."""
    seconds = (now - moment).total_seconds()
    return span(seconds) if seconds < _MONTHS_DAYS * 86400 else f"{moment:%Y-%m-%d}"


@pass_context
def ago(context: Context, moment: object) -> Markup:
    """A moment as an age, with its date on hover; a dash where nobody knows it."""
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if not isinstance(at, datetime):
        return Markup("–")
    iso = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    # Digits and letters of our own, hundreds of them on a page: there is nothing to escape.
    return Markup(f'<time datetime="{iso}" title="{iso}">{age(at, context["now"])}</time>')


def asset(file: str) -> str:
    """The address of a static file, which changes with its content."""
    return f"/static/{file}?v={hashlib.sha256(_file(file)).hexdigest()[:12]}"


@lru_cache(maxsize=8)
def _file(file: str) -> bytes:
    return (_HERE / "static" / file).read_bytes()


@lru_cache(maxsize=1)
def pages() -> Environment:
    """The templates, with the filters that they share."""
    loader = FileSystemLoader(_HERE / "templates")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters.update(known=known, name=name, cut=cut, status=status, ago=ago, span=span, cells=cells, **FILTERS)
    found.globals.update(asset=_assets().__getitem__, navigation=NAVIGATION)
    return found


@lru_cache(maxsize=1)
def _assets() -> Mapping[str, str]:
    return {file: asset(file) for file in STATIC}
