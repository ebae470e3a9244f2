"""A hostile version of our own hub: `python tests/hostile_hub.py BEHAVIOUR DIR`, or HostileHub(behaviour, folder).

The command prints its address and serves until it is killed; `--list` prints the behaviours.
"""

import argparse
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from starlette.types import ASGIApp

import hostile_tricks as tricks
from dayzero.adapters.hubs.serving import serve_app
from dayzero.adapters.hubs.serving.server import url_of
from hub_counter import Asked, CountingHub

GATED = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to this model is restricted."}


@dataclass(frozen=True)
class Behaviour:
    """What a hub does wrong: edits of a copy of the folder, and middleware over the app."""

    meaning: str
    wrap: Callable[[ASGIApp], ASGIApp] | None = None
    prepare: Callable[[Path], None] | None = None


def _document(edit: Callable[[dict[str, object]], None]) -> Callable[[ASGIApp], ASGIApp]:
    return lambda app: tricks.changing(app, tricks.is_model, tricks.in_document(edit))


def _status(where: tricks.Where, status: int, times: int | None = None, **headers: str) -> Callable[[ASGIApp], ASGIApp]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda app: tricks.refusing(app, where, status, named, times)


def _body(where: tricks.Where, change: tricks.Change, *, keep_length: bool = False) -> Callable[[ASGIApp], ASGIApp]:
    return lambda app: tricks.changing(app, where, change, keep_length=keep_length)


def _repo(edit: Callable[[Path], None]) -> Callable[[Path], None]:
    return tricks.each_repo(edit)


def _gate(app: ASGIApp) -> ASGIApp:
    return tricks.refusing(_document(tricks.closed_doors)(app), tricks.is_file, 403, GATED)


def _circle(app: ASGIApp) -> ASGIApp:
    return tricks.changing(tricks.asking(app, tricks.without_query), tricks.is_listing, tricks.same_page_again)


BEHAVIOURS: dict[str, Behaviour] = {
    "none": Behaviour("an honest hub"),
    "down": Behaviour("nothing listens at the address"),
    "slow": Behaviour("requests are taken and never answered", tricks.silent),
    "drip": Behaviour("answers come byte by byte, for ever", tricks.dripping),
    "flood": Behaviour("API answers never end", tricks.flooding),
    "missing": Behaviour("404 for every model", _status(tricks.is_model, 404, X_Error_Code="RepoNotFound")),
    "unauthorized": Behaviour("401 for everything", _status(tricks.is_anything, 401)),
    "gated": Behaviour("models are listed, their files answer 403 GatedRepo", _gate),
    "rate-limited": Behaviour(
        "429 with Retry-After 1, twice, then honest", _status(tricks.is_anything, 429, 2, Retry_After="1")
    ),
    "rate-limited-long": Behaviour("429 with Retry-After 3600, always", _status(tricks.is_anything, 429, Retry_After="3600")),
    "failing": Behaviour("500 for everything", _status(tricks.is_anything, 500)),
    "flaky": Behaviour("503 twice, then honest", _status(tricks.is_anything, 503, 2)),
    "truncated": Behaviour("weights break off half-way", _body(tricks.is_weights, tricks.half_of_it, keep_length=True)),
    "cut-once": Behaviour(
        "the first weight file breaks off half-way, once",
        lambda app: tricks.changing(app, tricks.is_weights, tricks.half_of_it, keep_length=True, times=1),
    ),
    "stalling": Behaviour("half of each weight file, then silence", tricks.stalling),
    "short": Behaviour("half of the weights, as if that were all", _body(tricks.is_weights, tricks.half_of_it)),
    "long": Behaviour("more weights than stated", _body(tricks.is_weights, tricks.some_bytes_more)),
    "wrong-digest": Behaviour("one bit of each weight file is wrong", _body(tricks.is_weights, tricks.one_bit_wrong)),
    "wrong-config": Behaviour("one bit of each other file is wrong", _body(tricks.is_file, tricks.one_bit_wrong)),
    "ignores-range": Behaviour("ranges are ignored", lambda app: tricks.asking(app, tricks.without_range)),
    "wrong-range": Behaviour("another range than asked is claimed", _body(tricks.is_file, tricks.other_range)),
    "lying-sizes": Behaviour("weights are stated 1000 bytes larger", _document(tricks.sizes(lambda size: size + 1000))),
    "huge-sizes": Behaviour("weights are stated as 2^60 bytes", _document(tricks.sizes(lambda _: 1 << 60))),
    "no-digests": Behaviour("no digest is stated", _document(tricks.no_digests)),
    "other-commit": Behaviour("another commit than asked", _document(tricks.other_commit)),
    "climbing-names": Behaviour("a file named ../../x", _document(tricks.one_more_name("../../evil.safetensors"))),
    "absolute-names": Behaviour("a file named /etc/x", _document(tricks.one_more_name("/etc/evil.json"))),
    "backslash-names": Behaviour("a file named ..\\x", _document(tricks.one_more_name("..\\evil.json"))),
    "nul-names": Behaviour("a name with NUL in it", _document(tricks.one_more_name("config\0.json"))),
    "not-json": Behaviour("a web page in place of the API", _body(tricks.is_api, tricks.web_page)),
    "circling": Behaviour("the listing never ends", _circle),
    "elsewhere": Behaviour("the next page is on another host", _body(tricks.is_listing, tricks.page_elsewhere)),
    "rubbish-listing": Behaviour("entries that are no models", _body(tricks.is_listing, tricks.page_with_rubbish)),
    "missing-shard": Behaviour("the index names a missing shard", prepare=_repo(tricks.without_last_shard)),
    "header-lies": Behaviour("a tensor beyond the file's end", prepare=_repo(tricks.first_header(tricks.lying_header))),
    "header-huge": Behaviour("a header of 2^62 bytes", prepare=_repo(tricks.first_header(tricks.huge_header))),
    "config-not-json": Behaviour("config.json is not JSON", prepare=_repo(tricks.config_said(b"{model: yes"))),
    "config-deep": Behaviour("config.json is 200,000 brackets", prepare=_repo(tricks.config_said(b"[" * 200_000))),
    "config-no-type": Behaviour("config.json has no model_type", prepare=_repo(tricks.config_changed(model_type=None))),
    "config-unknown": Behaviour(
        "an unknown architecture",
        prepare=_repo(tricks.config_changed(model_type="marsian", architectures=["MarsianForCausalLM"])),
    ),
    "remote-code": Behaviour("the configuration points to the repository's code", prepare=_repo(tricks.own_code)),
    "pickle-only": Behaviour("weights as pickles only", prepare=_repo(tricks.pickles_only)),
}


class HostileHub:
    """A hub over a copy of the folder (hard links) that behaves badly while the context is open; `url`, `asked`."""

    def __init__(self, behaviour: str, folder: Path) -> None:
        self._behaviour = BEHAVIOURS[behaviour]
        self._scratch = Path(tempfile.mkdtemp(prefix=".hostile-", dir=folder.resolve().parent))
        self.folder = self._scratch / "models"
        shutil.copytree(folder, self.folder, copy_function=os.link)
        if self._behaviour.prepare:
            self._behaviour.prepare(self.folder)
        self._refusing = socket.socket() if behaviour == "down" else None
        self._hub: CountingHub | None = None
        if self._refusing:
            self._refusing.bind(("127.0.0.1", 0))
            self.url = url_of(self._refusing)
        else:
            app: ASGIApp = serve_app(self.folder)
            self._hub = CountingHub(self.folder, app=self._behaviour.wrap(app) if self._behaviour.wrap else app)
            self.url = self._hub.url

    @property
    def asked(self) -> list[Asked]:
        """Requests so far."""
        return self._hub.asked if self._hub else []

    def __enter__(self) -> "HostileHub":
        if self._hub:
            self._hub.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._hub:
            self._hub.__exit__(kind, error, trace)
        if self._refusing:
            self._refusing.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("behaviour", nargs="?", choices=sorted(BEHAVIOURS))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.list or not given.behaviour or not given.folder:
        for name, behaviour in BEHAVIOURS.items():
            print(f"{name:18} {behaviour.meaning}")
        sys.exit(0 if given.list else 2)
    with HostileHub(given.behaviour, given.folder) as hub:
        print(hub.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
