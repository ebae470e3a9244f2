"""The method as a page: docs/method.md, with what the version that judged an entry was."""

import re
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markdown_it import MarkdownIt
from markupsafe import Markup

import dayzero
from dayzero.errors import DependencyError
from dayzero.web.frame import page

_VERSION = re.compile(r"^- (.+?): (.+)$")
_NAMED = re.compile(r"`([^`]+)`")


def method_router() -> APIRouter:
    """`/method` is the newest version, `/method/VERSION` the same with what that version was."""
    routes = APIRouter()

    @routes.get("/method", include_in_schema=False)
    def method() -> HTMLResponse:
        return _page(None)

    @routes.get("/method/{version}", include_in_schema=False)
    def of_version(version: str) -> HTMLResponse:
        return _page(version)

    return routes


def _page(asked: str | None) -> HTMLResponse:
    text, known = method_text(), versions()
    heading, _, rest = text.partition("\n")
    newest = heading.partition(":")[2].strip()
    unknown = asked is not None and asked not in known
    return page(
        "method.html",
        title=heading.lstrip("# ").strip(),
        here="/method",
        problem=f"There is no version {asked[:60]} of the method." if unknown and asked else None,
        status=404 if unknown else 200,
        asked=None if unknown else asked,
        said=known.get(asked or ""),
        newest=newest,
        is_newest=asked in [one.strip() for one in newest.split(",")],
        body=_rendered(rest),
    )


@lru_cache(maxsize=1)
def method_text() -> str:
    """The text of docs/method.md, from the source tree or the installed wheel."""
    package = Path(dayzero.__file__).resolve().parent
    for folder in (package / "docs", package.parents[1] / "docs"):
        if (folder / "method.md").is_file():
            return (folder / "method.md").read_text(encoding="utf-8")
    raise DependencyError("this installation has no page of the method.", remedy="Install dayzero again from a complete wheel.")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """What each version of the method was, by its name."""
    section = method_text().partition("\n## Versions\n")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines():
        matched = _VERSION.match(line)
        for name in _NAMED.findall(matched[1]) if matched else ():
            found[name] = matched[2] if matched else ""
    return found


@lru_cache(maxsize=1)
def _rendered(text: str) -> Markup:
    """Markdown as HTML: no HTML in it counts, and links to files of the documentation, which are not served, become words."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in tokens:
        if token.type == "inline" and token.children:
            token.children = [child for child in token.children if child.type not in ("link_open", "link_close")]
    return Markup(reader.renderer.render(tokens, reader.options, {}))
