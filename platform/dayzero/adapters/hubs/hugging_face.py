"""The Hugging Face hub, or anything that speaks its API, as a Hub."""

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
from huggingface_hub import hf_hub_url, is_offline_mode

from dayzero.adapters.hubs.downloading import PartialFile, check_content, partial_file
from dayzero.adapters.hubs.lines import LineLimits, Lines, Place
from dayzero.adapters.hubs.requests import ODD_ANSWER, HubAccess, Patience, answer_of, small_answer, with_retries
from dayzero.adapters.hubs.streaming import stream_ranges
from dayzero.adapters.hubs.wire import SentModel, parse_listing, parse_model
from dayzero.domain.release import HubKind, Release, RepoFile, content_id_of
from dayzero.domain.watching import RepoListing
from dayzero.errors import BadInputError, BlockedError, DependencyError, IntegrityError, UnavailableError
from dayzero.names import inside, safe_path, safe_repo_id
from dayzero.ports.hub import Progress
from dayzero.stages.headers.files import file_of
from dayzero.stages.headers.reading import MAX_INDEX_BYTES
from dayzero.stages.watching.roles import role_of
from dayzero.stages.watching.stages import index_to_read, stage_of

_PAGE_ENTRIES = 200
_LARGEST_DOCUMENT_BYTES = 64 << 20
_REREAD_BYTES = 16 << 20
"""A hub that ignores ranges is read from the start up to here; beyond, the range is refused."""

_FIELDS = ["sha", "lastModified", "pipeline_tag", "gated", "createdAt"]

log = logging.getLogger(__name__)


class HuggingFaceHub:
    """A hub by its endpoint. Only the given token is sent (never one that lies about in the user's home)."""

    def __init__(
        self,
        endpoint: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: int = 4,
        first_wait_s: float = 0.5,
        limits: LineLimits | None = None,
    ) -> None:
        if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
            raise BadInputError(
                f"{endpoint!r} is no address of a hub.", remedy="Write an http(s) URL, as https://huggingface.co."
            )
        self.endpoint = endpoint.rstrip("/")
        self._access = HubAccess(self.endpoint, token, timeout_s, retries, first_wait_s)
        self._lines = Lines(self._access, limits or LineLimits())

    @property
    def is_anonymous(self) -> bool:
        """Whether no token is sent."""
        return not self._access.token

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """Repositories, the last changed first, page by page as they are asked for; see the port for the errors."""
        params: dict[str, str | list[str]] = {"sort": "lastModified", "direction": "-1", "expand": _FIELDS}
        params["limit"] = str(min(limit or _PAGE_ENTRIES, _PAGE_ENTRIES))
        params |= {key: value for key, value in (("author", author), ("pipeline_tag", task)) if value}
        whose, given, asked = "the list of models", 0, {str(params)}
        while True:
            body, headers = small_answer(self._access, f"{self.endpoint}/api/models", whose, _LARGEST_DOCUMENT_BYTES, params)
            page = parse_listing(body, self.endpoint)
            if page.malformed:
                log.warning("%s lists %d models that cannot be read", self.endpoint, page.malformed)
            for sent in page.listings:
                if (since and sent.lastModified and sent.lastModified < since) or given == limit:
                    return
                given += 1
                yield RepoListing(sent.id, sent.sha, sent.lastModified, sent.pipeline_tag, bool(sent.gated))
            following = _next_params(headers)
            if following is None or given == limit:
                return
            if str(following) in asked:
                raise BadInputError(
                    f"{self.endpoint} lists its models in circles: the same page follows again.", remedy=ODD_ANSWER
                )
            asked.add(str(following))
            params = following

    def release(self, repo_id: str, revision: str | None) -> Release:
        """The release at a revision (None: the head), pinned to its commit; see the port for the errors."""
        safe_repo_id(repo_id)
        url = f"{self.endpoint}/api/models/{repo_id}"
        if revision is not None:
            url += f"/revision/{quote(revision, safe='')}"
        whose = f"hf:{repo_id}" + (f"@{revision}" if revision else "")
        body, _ = small_answer(self._access, url, whose, _LARGEST_DOCUMENT_BYTES, {"blobs": "true"})
        sent = parse_model(body, f"{whose} at {self.endpoint}")
        if revision is not None and len(revision) == len(sent.sha) and sent.sha != revision:
            raise IntegrityError(
                f"{whose} was asked for at {self.endpoint}, which answered with commit {sent.sha}.", remedy=ODD_ANSWER
            )
        files = _files_of(sent, f"{whose} at {self.endpoint}")
        index = index_to_read(files)
        stage, _ = stage_of(files, None if index is None else self._index(repo_id, sent.sha, index))
        return Release(
            hub=HubKind.HUGGING_FACE,
            repo_id=repo_id,
            revision=sent.sha,
            stage=stage,
            files=files,
            content_id=content_id_of(files),
            endpoint=self.endpoint,
            published_at=sent.lastModified,
            gated=bool(sent.gated),
        )

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        """Exactly the bytes [begin, end) of a file; IntegrityError when the hub sends fewer or more."""
        file = file_of(release, path)
        if not 0 <= begin <= end <= file.size_bytes:
            raise BadInputError(
                f"bytes {begin} to {end} of {path} of {release.ref} are asked for, and it has {file.size_bytes}.",
                remedy="Resolve the model again: it is another now.",
            )
        return with_retries(self._access, lambda: self._range(release, file, begin, end)) if end > begin else b""

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        """(offset, window) of rising ranges of a file; see the port. A part that breaks off is asked for from there on."""
        file = file_of(release, path)
        if is_offline_mode():
            raise DependencyError(
                f"{self.endpoint} is not asked for {path} of {release.ref}: HF_HUB_OFFLINE is set.",
                remedy="Unset HF_HUB_OFFLINE.",
            )
        url = self._url(release.repo_id, release.revision, path)
        return stream_ranges(self._lines, Place(url, release.revision, file, f"{path} of {release.ref}"), ranges, connections)

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        """A whole small file, checked against its digest; BadInputError above max_bytes."""
        return self._small(release.repo_id, release.revision, file_of(release, path), max_bytes)

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        """The file under `into`, resumed from `NAME.incomplete`, checked against its digest before it gets its name.

        A file with a wrong digest is moved to `NAME.<digest>.quarantine`. Retries count anew after each MiB of progress.
        """
        file = file_of(release, path)
        whose = f"{release.ref} at {self.endpoint}"
        target = inside(into, path, whose)
        with partial_file(target, file, whose) as partial:
            if partial is None:
                if progress:
                    progress(file.size_bytes, file.size_bytes)
                return target
            patience = Patience(self._access, lambda: partial.done_bytes)
            with_retries(self._access, lambda: self._fill(release, file, partial, progress), patience)
            return partial.finish()

    def _url(self, repo_id: str, revision: str, path: str) -> str:
        return hf_hub_url(repo_id, path, revision=revision, endpoint=self.endpoint)

    def _small(self, repo_id: str, revision: str, file: RepoFile, max_bytes: int) -> bytes:
        whose = f"{file.path} of hf:{repo_id}@{revision}"
        if file.size_bytes > max_bytes:
            raise BadInputError(
                f"{whose} has {file.size_bytes} bytes, more than the {max_bytes} that are read of it.",
                remedy="It is no configuration or index; see the repository's page.",
            )
        body, _ = small_answer(self._access, self._url(repo_id, revision, file.path), whose, max_bytes)
        return check_content(body, file, f"hf:{repo_id}@{revision} at {self.endpoint}")

    def _index(self, repo_id: str, revision: str, index: RepoFile) -> bytes | None:
        """The index, or None when the repository is gated: then the file names alone must tell."""
        try:
            return self._small(repo_id, revision, index, MAX_INDEX_BYTES)
        except BlockedError:
            return None

    def _range(self, release: Release, file: RepoFile, begin: int, end: int) -> bytes:
        whose = f"bytes {begin} to {end} of {file.path} of {release.ref}"
        url = self._url(release.repo_id, release.revision, file.path)
        with answer_of(self._access, url, whose, byte_range=f"bytes={begin}-{end - 1}") as response:
            ignored = response.status_code == 200
            if response.status_code == 416 or (ignored and end > _REREAD_BYTES):
                raise IntegrityError(
                    f"{self.endpoint} cannot send {whose} (status {response.status_code}, range ignored or refused).",
                    remedy=ODD_ANSWER,
                )
            skip = begin if ignored else 0
            if not ignored:
                _check_range(response, begin, end, file, f"{whose} at {self.endpoint}")
            body = bytearray()
            for window in response.iter_raw():
                body += window
                if ignored and len(body) >= skip + end - begin:
                    break
                if len(body) > skip + end - begin:
                    raise IntegrityError(
                        f"{self.endpoint} sent more than the {end - begin} bytes asked for: {whose}.", remedy=ODD_ANSWER
                    )
        content = bytes(body[skip : skip + end - begin])
        if len(content) != end - begin:
            raise IntegrityError(f"{self.endpoint} sent {len(content)} of {end - begin} bytes: {whose}.", remedy=ODD_ANSWER)
        return content

    def _fill(self, release: Release, file: RepoFile, partial: PartialFile, progress: Progress | None) -> None:
        """Ask for what is missing and write it; UnavailableError when it breaks off (what came is kept)."""
        whose = f"{file.path} of {release.ref}"
        if partial.missing_bytes == 0:
            return
        url = self._url(release.repo_id, release.revision, file.path)
        begin = partial.done_bytes
        wanted = f"bytes={begin}-" if begin else None
        with answer_of(self._access, url, whose, byte_range=wanted) as response:
            if response.status_code == 416 or (response.status_code == 200 and begin):
                partial.restart()
            if response.status_code == 416:
                raise UnavailableError(
                    f"{self.endpoint} has fewer than {begin} bytes of {whose}; it is asked for anew.",
                    remedy="It is tried again.",
                )
            if response.status_code == 206:
                _check_range(response, begin, file.size_bytes, file, f"{whose} at {self.endpoint}")
            for window in response.iter_raw():
                partial.write(window)
                if progress:
                    progress(partial.done_bytes, file.size_bytes)
        if partial.missing_bytes:
            raise UnavailableError(
                f"{self.endpoint} sent {partial.done_bytes} of {file.size_bytes} bytes of {whose} and ended there.",
                remedy="What came is kept, and the rest is asked for; try again later.",
            )


def _files_of(sent: SentModel, whose: str) -> tuple[RepoFile, ...]:
    files: dict[str, RepoFile] = {}
    for sibling in sent.siblings:
        path = safe_path(sibling.rfilename, whose)
        size_bytes = sibling.lfs.size if sibling.lfs else sibling.size
        if size_bytes is None or path in files:
            wrong = "is listed twice" if path in files else "has no stated size"
            raise BadInputError(f"{whose}: the file {path} {wrong}.", remedy=ODD_ANSWER)
        sha256 = sibling.lfs.sha256 if sibling.lfs else None
        files[path] = RepoFile(path, size_bytes, role_of(path), sha256, None if sha256 else sibling.blobId)
    return tuple(files[path] for path in sorted(files))


def _check_range(response: httpx2.Response, begin: int, end: int, file: RepoFile, whose: str) -> None:
    wanted = f"bytes {begin}-{end - 1}/{file.size_bytes}"
    got = response.headers.get("Content-Range", "nothing")
    if got.strip().lower() != wanted:
        raise IntegrityError(f"{whose}: the hub was to send {wanted}, and says that it sends {got[:100]}.", remedy=ODD_ANSWER)


def _next_params(headers: Mapping[str, str]) -> dict[str, str | list[str]] | None:
    """The query of the next page. Only the query is taken from the link: the token goes to our endpoint alone."""
    url = httpx2.Response(200, headers={"Link": headers.get("Link", "")}).links.get("next", {}).get("url")
    if not url:
        return None
    query = parse_qs(urlsplit(url).query)
    return {key: values if len(values) > 1 else values[0] for key, values in query.items()}
