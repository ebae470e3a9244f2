"""The hub's HTTP API: the routes that huggingface_hub's clients ask, over a folder."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from dayzero.adapters.hubs.cards import Card, read_card
from dayzero.adapters.hubs.serving import documents
from dayzero.adapters.hubs.serving.listing import LARGEST_PAGE, ListedModel, ListQuery, matching, page_of
from dayzero.adapters.hubs.serving.records import ShardRecords
from dayzero.adapters.hubs.serving.sendfile import WeightsResponse
from dayzero.adapters.hubs.serving.snapshots import Commit, RepoHistory, Served, ServedFile, ServedFolder
from dayzero.domain.canonical import Json
from dayzero.errors import DayzeroError, ExitCode

_LARGEST_BODY_BYTES = 1 << 20

Flag = Annotated[bool, Query()]


class Refusal(Exception):
    """A request that is answered with an error: status, the hub's error code, one sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(message)


def serve_app(folder: Path, state: Path | None = None, shards: tuple[Path, ...] = ()) -> FastAPI:
    """An ASGI app that serves the folder (org/name/files) as a hub.

    Revisions are `main` and commit ids. Old versions of files up to 1 MiB stay readable; of larger files only what lies in
    the folder now: asking for an older version answers 404 EntryNotFound, and the message says so. The signed records
    under `shards` vouch for slices of other nodes. BadInputError: no folder.
    """
    return serve_repositories(ServedFolder(folder, state), shards)


def serve_repositories(served: Served, shards: tuple[Path, ...] = ()) -> FastAPI:
    """An ASGI app that serves these repositories as a hub; a file that is listed and not here answers 404 and says why."""
    records = ShardRecords(shards)
    app = FastAPI(title="dayzero hub", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.served = served
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(DayzeroError, _report)
    _add_listing(app, served)
    _add_repository(app, served)
    _add_files(app, served)
    _add_records(app, records)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    headers = {"X-Error-Code": error.code, "X-Error-Message": re.sub(r"[^ -~]", "?", error.message)}
    return JSONResponse({"error": error.message}, error.status, headers)


async def _report(_: Request, error: Exception) -> Response:
    assert isinstance(error, DayzeroError)
    return JSONResponse({"error": str(error)}, 400 if error.exit_code is ExitCode.BAD_INPUT else 503)


def _add_listing(app: FastAPI, served: Served) -> None:
    @app.get("/")
    def about() -> dict[str, Json]:
        return {"hub": "dayzero", "models": list(served.repo_ids())}

    @app.get("/api/models")
    def models(
        request: Request,
        author: str | None = None,
        search: str | None = None,
        filter: Annotated[list[str] | None, Query()] = None,
        pipeline_tag: str | None = None,
        sort: str | None = None,
        direction: str = "-1",
        limit: Annotated[int, Query(ge=1)] = LARGEST_PAGE,
        cursor: str | None = None,
        full: Flag = False,
    ) -> Response:
        filters = tuple(part for text in filter or () for part in text.split(",") if part)
        query = ListQuery(author, search, filters, pipeline_tag, sort, direction != "1", min(limit, LARGEST_PAGE), after=cursor)
        known = [
            ListedModel(found, _card(served, found.head, found)) for found in map(served.history, served.repo_ids()) if found
        ]
        page, following = page_of(matching(known, query), query)
        rows = [
            documents.model_document(item.history, item.history.head, item.card, siblings=full, blobs=False) for item in page
        ]
        return JSONResponse(rows, headers=_next_link(request, following))

    @app.get("/api/whoami-v2")
    def whoami() -> Response:
        raise Refusal(401, "NoAccounts", "This hub has no accounts; every model in it is open.")


def _add_repository(app: FastAPI, served: Served) -> None:
    @app.get("/api/models/{org}/{name}")
    @app.get("/api/models/{org}/{name}/revision/{revision:path}")
    def model(org: str, name: str, revision: str = "main", blobs: Flag = False) -> Response:
        history, commit = _commit(served, org, name, revision)
        card = _card(served, commit, history)
        return JSONResponse(documents.model_document(history, commit, card, siblings=True, blobs=blobs))

    @app.get("/api/models/{org}/{name}/tree/{revision}")
    @app.get("/api/models/{org}/{name}/tree/{revision}/{path:path}")
    def tree(
        request: Request,
        org: str,
        name: str,
        revision: str,
        path: str = "",
        recursive: Flag = False,
        expand: Flag = False,
        limit: Annotated[int, Query(ge=1)] = LARGEST_PAGE,
        cursor: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        _, commit = _commit(served, org, name, revision)
        entries = documents.tree_documents(commit, path.strip("/"), recursive=recursive, expand=expand)
        if path and not entries:
            raise Refusal(404, "EntryNotFound", f"There is no folder {path} in {org}/{name} at {commit.id}.")
        end = cursor + min(limit, LARGEST_PAGE)
        return JSONResponse(entries[cursor:end], headers=_next_link(request, str(end) if end < len(entries) else None))

    @app.get("/api/models/{org}/{name}/commits/{revision:path}")
    def commits(org: str, name: str, revision: str, request: Request) -> Response:
        history, commit = _commit(served, org, name, revision)
        formatted = "formatted" in request.query_params.getlist("expand[]")
        until = history.commits[: history.commits.index(commit) + 1]
        rows = [documents.commit_document(old, formatted) for old in reversed(until)]
        return JSONResponse(rows, headers={"X-Total-Count": str(len(rows))})

    @app.get("/api/models/{org}/{name}/refs")
    def refs(org: str, name: str) -> Response:
        return JSONResponse(documents.refs_document(_history(served, org, name)))

    @app.post("/api/models/{org}/{name}/paths-info/{revision:path}")
    async def paths_info(org: str, name: str, revision: str, request: Request) -> Response:
        form = parse_qs(await _small_body(request))
        _, commit = await run_in_threadpool(_commit, served, org, name, revision)
        expand = form.get("expand", ["false"])[-1].lower() in ("true", "1")
        return JSONResponse(documents.paths_documents(commit, form.get("paths", []), expand=expand))


async def _small_body(request: Request) -> str:
    body = b""
    async for window in request.stream():
        body += window
        if len(body) > _LARGEST_BODY_BYTES:
            raise Refusal(413, "BadRequest", f"A request may have {_LARGEST_BODY_BYTES} bytes.")
    return body.decode(errors="replace")


def _add_files(app: FastAPI, served: Served) -> None:
    @app.api_route("/{org}/{name}/resolve/{revision}/{path:path}", methods=["GET", "HEAD"])
    def resolve(org: str, name: str, revision: str, path: str) -> Response:
        known = served.known_commit(f"{org}/{name}", revision)
        history, commit = known or _commit(served, org, name, revision)
        file = next((file for file in commit.files if file.path == path), None)
        if file is None:
            raise Refusal(404, "EntryNotFound", f"There is no file {path} in {history.repo_id} at {commit.id}.")
        place = served.locate(history.repo_id, file)
        if place is None:
            raise Refusal(404, "EntryNotFound", served.why_not_here(file, commit))
        return _file_response(place, file, commit)


def _add_records(app: FastAPI, records: ShardRecords) -> None:
    @app.get("/api/dayzero/shards/{content_id}/{degrees}")
    def record(content_id: str, degrees: str) -> Response:
        found = records.find(content_id, degrees)
        if found is None:
            raise Refusal(404, "EntryNotFound", f"No shards of {content_id[:64]} for {degrees[:99]} were signed for here.")
        return Response(found, media_type="application/json")


def _file_response(place: Path, file: ServedFile, commit: Commit) -> Response:
    headers = {
        "ETag": f'"{file.oid}"',
        "X-Repo-Commit": commit.id,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
    if file.lfs:
        headers |= {"X-Linked-Etag": f'"{file.oid}"', "X-Linked-Size": str(file.size_bytes)}
    name = file.path.rpartition("/")[2]
    return WeightsResponse(
        place, headers=headers, media_type="application/octet-stream", filename=name, stat_result=place.stat()
    )


def _history(served: Served, org: str, name: str) -> RepoHistory:
    history = served.history(f"{org}/{name}")
    if history is None:
        raise Refusal(404, "RepoNotFound", f"There is no model {org}/{name} in this hub.")
    return history


def _commit(served: Served, org: str, name: str, revision: str) -> tuple[RepoHistory, Commit]:
    history = _history(served, org, name)
    commit = history.find(revision)
    if commit is None:
        raise Refusal(404, "RevisionNotFound", f"There is no revision {revision[:100]} of {org}/{name} in this hub.")
    return history, commit


def _card(served: Served, commit: Commit, history: RepoHistory) -> Card:
    places: dict[str, Path | None] = {
        file.path: served.locate(history.repo_id, file) for file in commit.files if file.path in ("README.md", "config.json")
    }
    return read_card(places.get("README.md"), places.get("config.json"))


def _next_link(request: Request, cursor: str | None) -> dict[str, str]:
    if cursor is None:
        return {}
    kept = [(key, value) for key, value in request.query_params.multi_items() if key != "cursor"]
    url = request.url.replace(query=urlencode([*kept, ("cursor", cursor)]))
    return {"Link": f'<{url}>; rel="next"'}
