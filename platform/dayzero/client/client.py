"""Reading a control plane's list over HTTP."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

Json = Mapping[str, Any]
_TIMEOUT_S = 30.0
_PAGE = 500


class Refused(Exception):
    """The server refused: its status, what was wrong, and what to do about it."""

    def __init__(self, status: int, detail: str, remedy: str | None) -> None:
        self.status = status
        self.detail = detail
        self.remedy = remedy
        super().__init__(f"{detail} {remedy}" if remedy else detail)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as the list shows it; `row` has every column, also those of newer servers."""

    entry_id: str
    model: str
    platform: str
    mode: str
    lifecycle: str
    correctness: str
    performance: str
    freshness: str
    grade: str
    reason: str
    engine: str
    dtype: str
    plan: str
    recorded_at: datetime
    row: Json

    @property
    def verified(self) -> bool:
        """Verified in words: correctness verified and freshness current."""
        return self.correctness == "verified" and self.freshness == "current"


class Client:
    """The list of one control plane. `token` is sent where reading needs one; use it as a context manager, or close it."""

    def __init__(self, url: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT_S, transport=transport)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def entries(self, filter: str = "", *, search: str = "") -> Iterator[Entry]:
        """Every current entry that matches, page by page."""
        for page in self._pages("/v1/compat", {"filter": filter, "search": search, "limit": _PAGE}):
            yield from (_entry(row) for row in page["entries"])

    def entry(self, entry_id: str) -> Json:
        """One entry with its checks, measurements and clock."""
        found: Json = self._get(f"/v1/compat/{quote(entry_id, safe='')}")["entry"]
        return found

    def best(self, model: str, platform: str) -> Entry | None:
        """The best entry of a model on a platform; None where nobody tried."""
        asked = f"model = {_quoted(model)} and platform = {_quoted(platform)}"
        orders = ("verified", "functional", "failing", "unknown")
        found = list(self.entries(asked))
        return min(found, key=lambda one: (one.freshness != "current", orders.index(one.correctness)), default=None)

    def model(self, name: str) -> Json:
        """A model with its releases, entries, work and history, by its name or an alias."""
        found: Json = self._get(f"/v1/models/{quote(name)}")["model"]
        return found

    def platforms(self) -> list[Json]:
        """Every platform with its counts and its day-0 clock."""
        return list(self._get("/v1/platforms")["platforms"])

    def platform(self, slug: str) -> Json:
        """A platform with its gaps, those first that unlock most models."""
        found: Json = self._get(f"/v1/platforms/{quote(slug, safe='')}")["platform"]
        return found

    def releases(self, *, taken: bool = True) -> Iterator[Json]:
        """The feed of releases, the newest first: those taken, or those passed over with the reason."""
        name = "releases" if taken else "sightings"
        for page in self._pages("/v1/releases", {"show": "taken" if taken else "ignored", "limit": _PAGE}):
            yield from page[name]

    def runs(self, state: str | None = None) -> Iterator[Json]:
        """Adaptations, the newest first."""
        for page in self._pages("/v1/runs", {"limit": _PAGE} | ({"state": state} if state else {})):
            yield from page["runs"]

    def _pages(self, path: str, asked: Mapping[str, str | int]) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            page = self._get(path, dict(asked) | ({"cursor": cursor} if cursor else {}))
            yield page
            cursor = page.get("next")
            if cursor is None:
                return

    def _get(self, path: str, asked: Mapping[str, str | int] | None = None) -> Json:
        answer = self._http.get(path, params=asked)
        if answer.is_success:
            found: Json = answer.json()
            return found
        try:
            problem: Json = answer.json()
        except ValueError:
            problem = {}
        raise Refused(
            answer.status_code, problem.get("detail", f"the server answered {answer.status_code}."), problem.get("remedy")
        )


def _entry(row: Json) -> Entry:
    known = {field.name: row[field.name] for field in fields(Entry) if field.name not in ("row", "recorded_at")}
    return Entry(**known, recorded_at=datetime.fromisoformat(row["recorded_at"]), row=row)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
