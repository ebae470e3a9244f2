"""Shards straight from a hub: the bytes of the disk, nothing unchecked called checked, nothing half taken for whole."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.adapters.hubs.digests import git_blob_id
from dayzero.adapters.hubs.serving import HubServer
from dayzero.adapters.hubs.serving.app import serve_app
from dayzero.adapters.transfer.streaming import stream_shards
from dayzero.adapters.transfer.vouching import statement_of_shards
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.app.vouching import witness
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest, WeightsState
from dayzero.domain.slices import SliceLimits
from dayzero.errors import BadInputError, BlockedError, DayzeroError, IntegrityError, NotFoundError, UnavailableError
from dayzero.settings import Settings
from dayzero.stages.transfer.slices import slices_of
from hostile_hub import HostileHub
from hub_counter import CountingHub
from published_models import REPO, Known, hub_at, known_at, publish
from vouching import key_in, signed, told

pytestmark = pytest.mark.hub
TP2 = Degrees(tp=2)
EP2 = Degrees(tp=2, ep=2)
CLOSE = SliceLimits(near_bytes=4096, overread_share=0.01, least_requests=150)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    publish(tmp_path / "models")
    return tmp_path / "models"


@pytest.fixture
def served(models: Path) -> Iterator[CountingHub]:
    with CountingHub(models) as hub:
        yield hub


def stream(known: Known, layout: ShardManifest, into: Path, **more: object) -> ShardManifest:
    return stream_shards(known.hub, known.release, known.index, layout, into, None, **more)


def verified(manifest: ShardManifest) -> bool:
    return bool(manifest.sources) and all(source.verified for source in manifest.sources)


def rank_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.safetensors")) if folder.exists() else []


@pytest.mark.parametrize("degrees", [TP2, EP2, Degrees(pp=2)], ids=str)
def test_streamed_shards_are_those_of_the_disk(models: Path, served: CountingHub, tmp_path: Path, degrees: Degrees) -> None:
    known = known_at(served.url)
    layout = known.layout(degrees)
    local = WeightTransfer().shard(models / REPO, layout, tmp_path / "local", None)
    before = served.sent_bytes("resolve")
    seen: list[tuple[int, int | None]] = []
    manifest = stream_shards(
        known.hub, known.release, known.index, layout, tmp_path / "out", lambda done, total: seen.append((done, total))
    )
    assert [file.digest for file in manifest.files] == [file.digest for file in local.files]
    for one in rank_files(tmp_path / "local"):
        assert (tmp_path / "out" / one.name).read_bytes() == one.read_bytes()
    assert verified(manifest) and all(len(source.sha256 or "") == 64 for source in manifest.sources)
    assert {file.path: (file.size_bytes, file.sha256) for file in manifest.beside} == {
        path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (models / REPO).iterdir()
        if path.name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
    }
    taken = {file.path for file in manifest.beside}
    needed = {one.path: one.size_bytes for one in known.release.files if one.path.startswith("model-0") or one.path in taken}
    assert served.sent_bytes("resolve") - before == sum(needed.values()), "each byte once, and no copy beside the index"
    assert seen[-1][0] == seen[-1][1] and [done for done, _ in seen] == sorted(done for done, _ in seen)
    left = [path.name for path in (tmp_path / "out").iterdir() if path.name.endswith(".incomplete") or "journal" in path.name]
    assert left == []
    before = served.sent_bytes("resolve")
    assert stream(known, layout, tmp_path / "out") == manifest
    assert served.sent_bytes("resolve") == before, "what is there and right is not fetched again"


def test_without_integrity_nothing_is_called_verified(served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    manifest = stream(known, known.layout(TP2), tmp_path / "out", integrity=Integrity.NONE)
    assert manifest.sources and not any(source.verified or source.sha256 for source in manifest.sources)
    whole = stream(known, known.layout(TP2), tmp_path / "out")
    assert verified(whole) and [file.digest for file in whole.files] == [file.digest for file in manifest.files]


@pytest.mark.parametrize("degrees, ranks", [(Degrees(tp=2, pp=2), (0, 1)), (EP2, (0,)), (TP2, (1,))], ids=str)
def test_a_node_asks_for_what_its_ranks_hold_and_a_site_vouches(
    models: Path, served: CountingHub, tmp_path: Path, degrees: Degrees, ranks: tuple[int, ...]
) -> None:
    known = known_at(served.url)
    site = stream(known, known.layout(degrees), tmp_path / "site" / "plan")
    layout = known.layout(degrees, ranks)
    plan = slices_of(layout, known.index, ranks, CLOSE)
    before = served.sent_bytes("resolve")
    manifest = stream(known, layout, tmp_path / "node", slices=plan)
    small = sum(file.size_bytes for file in manifest.beside)
    assert served.sent_bytes("resolve") - before == plan.read_bytes + small
    if degrees.pp == 2:
        assert plan.read_bytes <= 1.02 * plan.shard_bytes, "the node holds the tp group"
    assert not verified(manifest) and [file.rank for file in manifest.files] == list(ranks)
    for file in manifest.files:
        assert (tmp_path / "node" / file.path).read_bytes() == (tmp_path / "site" / "plan" / file.path).read_bytes()
    key = key_in(tmp_path)
    signed(tmp_path / "site" / "plan", key)
    with HubServer(models, state=tmp_path / "state", app=serve_app(models, tmp_path / "state", (tmp_path / "site",))) as server:
        settings = Settings(site_url=server.url, trusted_keys=(str(key.public),))
        said = witness(settings, known.release, layout)
        assert said.key_id == key.public.id and said.statement is not None and len(said.statement.files) == len(site.files)
        absent = witness(settings, known.release, known.layout(Degrees()))
        assert absent.statement is None and "has no signed record of it for tp1" in absent.reason
        stranger = witness(
            Settings(site_url=server.url, trusted_keys=(str(key_in(tmp_path, "b").public),)), known.release, layout
        )
        assert stranger.statement is None and f"signed with the key {key.public.id}, which is not one of" in stranger.reason
        other = witness(settings, replace(known.release, content_id="0" * 64), layout)
        assert other.statement is None and "no signed record" in other.reason
        assert "DAYZERO_SITE_URL is not set" in witness(Settings(), known.release, layout).reason
    refused = stream(known, layout, tmp_path / "refused", slices=plan, witness=stranger)
    assert refused.state is WeightsState.UNVERIFIED
    vouched = stream(known, layout, tmp_path / "vouched", slices=plan, witness=said)
    assert vouched.state is WeightsState.VOUCHED and vouched.vouched_by == key.public.id
    assert stream(known, layout, tmp_path / "vouched", slices=plan) == vouched, "it stays so, without the site"
    before = served.sent_bytes("resolve")
    again = stream(known, layout, tmp_path / "node", slices=plan, witness=said)
    assert again.state is WeightsState.VOUCHED and served.sent_bytes("resolve") == before, (
        "what lay there unverified is compared"
    )


def test_slices_that_differ_from_the_sites_are_never_committed(models: Path, served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    stream(known, known.layout(TP2), tmp_path / "site")
    said = told(statement_of_shards(tmp_path / "site"), key_in(tmp_path))
    layout = known.layout(TP2, (0,))
    plan = slices_of(layout, known.index, (0,), CLOSE)
    with HostileHub("wrong-digest", models) as hostile:
        lying = replace(known, hub=hub_at(hostile.url))
        with pytest.raises(IntegrityError, match=r"rank-00000\.safetensors differ from the shards .* nothing was committed"):
            stream(lying, layout, tmp_path / "node", slices=plan, witness=said)
        assert not rank_files(tmp_path / "node") and not (tmp_path / "node" / "manifest.json").exists()
    assert verified(stream(known, layout, tmp_path / "node", slices=plan, witness=said)), "the next run asks for them anew"


def test_kept_shards_that_differ_from_the_sites_are_set_aside(models: Path, served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    stream(known, known.layout(TP2), tmp_path / "site")
    statement = statement_of_shards(tmp_path / "site")
    layout = known.layout(TP2, (0,))
    plan = slices_of(layout, known.index, (0,), CLOSE)
    with HostileHub("wrong-digest", models) as hostile:
        lied = stream(replace(known, hub=hub_at(hostile.url)), layout, tmp_path / "node", slices=plan)
    assert lied.state is WeightsState.UNVERIFIED
    said = told(statement, key_in(tmp_path))
    with pytest.raises(IntegrityError, match="differ from the shards"):
        stream(known, layout, tmp_path / "node", slices=plan, witness=said)
    assert len(list((tmp_path / "node").glob("*.quarantined"))) == 1
    mended = stream(known, layout, tmp_path / "node", slices=plan, witness=said)
    assert mended.state is WeightsState.VOUCHED
    assert rank_files(tmp_path / "node")[0].read_bytes() == rank_files(tmp_path / "site")[0].read_bytes()


def test_unchecked_and_unsigned_shards_vouch_for_nothing(models: Path, served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    key = key_in(tmp_path)
    stream(known, known.layout(TP2), tmp_path / "site" / "unchecked", integrity=Integrity.NONE)
    with pytest.raises(BadInputError, match="only who hashed whole files"):
        signed(tmp_path / "site" / "unchecked", key)
    stream(known, known.layout(TP2), tmp_path / "site" / "whole")
    (tmp_path / "site" / "manifest.signed.json").write_text("{")
    settings = {"trusted_keys": (str(key.public),)}
    with HubServer(models, state=tmp_path / "state", app=serve_app(models, tmp_path / "state", (tmp_path / "site",))) as server:
        unsigned = witness(Settings(site_url=server.url, **settings), known.release, known.layout(TP2))
        assert unsigned.statement is None and "has no signed record" in unsigned.reason
        signed(tmp_path / "site" / "whole", key)
        assert witness(Settings(site_url=server.url, **settings), known.release, known.layout(TP2)).statement is not None


HOSTILE: list[tuple[str, type[DayzeroError] | None, str]] = [
    ("cut-once", None, ""),
    ("rate-limited", None, ""),
    ("flaky", None, ""),
    ("ignores-range", None, ""),
    ("truncated", UnavailableError, "sent|broke off"),
    ("short", IntegrityError, "cuts the range"),
    ("wrong-digest", IntegrityError, "has the sha256"),
    ("failing", UnavailableError, "status 500"),
    ("gated", BlockedError, "Accept its licence on http"),
    ("rate-limited-long", UnavailableError, "429"),
]


@pytest.mark.parametrize("behaviour, error, says", HOSTILE, ids=[one[0] for one in HOSTILE])
def test_downloads_as_they_go_wrong(
    models: Path, served: CountingHub, tmp_path: Path, behaviour: str, error: type[DayzeroError] | None, says: str
) -> None:
    """D05: truncation and error bodies. D06: right size, wrong bytes. D08: 429 and its Retry-After."""
    known = known_at(served.url)
    layout = known.layout(TP2)
    with HostileHub(behaviour, models) as hostile:
        bad = replace(known, hub=hub_at(hostile.url, timeout_s=2.0))
        if error is None:
            assert verified(stream(bad, layout, tmp_path / "out"))
        else:
            with pytest.raises(error, match=says):
                stream(bad, layout, tmp_path / "out")
            assert not rank_files(tmp_path / "out") and not (tmp_path / "out" / "manifest.json").exists()
            if behaviour == "wrong-digest":
                asked = [one.path for one in hostile.asked if "/resolve/" in one.path]
                assert max(map(asked.count, asked)) == 2, "a wrong file is asked for once more, and then it is named"
    manifest = stream(known, layout, tmp_path / "out")
    assert verified(manifest), "an honest hub mends it"
    local = WeightTransfer().shard(models / REPO, layout, tmp_path / "local", None)
    assert [file.digest for file in manifest.files] == [file.digest for file in local.files]


def test_a_run_that_stopped_goes_on_with_what_is_missing(models: Path, served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    layout = known.layout(TP2)
    last = max(file.path for file in known.release.files if file.path.startswith("model-0"))

    class Failing:
        """The hub, until the last file is asked for."""

        def __init__(self) -> None:
            self.asked: list[str] = []

        def stream(self, release: object, path: str, ranges: object, **named: int) -> Iterator[tuple[int, memoryview]]:
            self.asked.append(path)
            if path == last:
                raise UnavailableError("it went away.")
            yield from known.hub.stream(release, path, ranges, **named)

    failing = Failing()
    with pytest.raises(UnavailableError, match="went away"):
        stream(replace(known, hub=failing), layout, tmp_path / "out", connections=1)
    assert failing.asked[-1] == last and not rank_files(tmp_path / "out")
    before = served.sent_bytes("resolve")
    manifest = stream(known, layout, tmp_path / "out")
    assert verified(manifest)
    size = next(file.size_bytes for file in known.release.files if file.path == last)
    size += sum(file.size_bytes for file in manifest.beside)
    assert served.sent_bytes("resolve") - before == size, "files that passed whole do not pass again"


def test_a_file_without_a_digest_is_not_taken_on_trust(served: CountingHub, tmp_path: Path) -> None:
    known = known_at(served.url)
    files = tuple(replace(file, sha256=None, git_blob_id=None) for file in known.release.files)
    blind = replace(known, release=replace(known.release, files=files))
    with pytest.raises(IntegrityError, match="states no digest"):
        stream(blind, known.layout(TP2), tmp_path / "out")
    gone = replace(known, release=replace(known.release, files=known.release.files[:2]))
    with pytest.raises(NotFoundError, match="there is no file"):
        stream(gone, known.layout(TP2), tmp_path / "out")


def test_a_file_with_a_git_blob_id_alone_is_checked_by_it_and_recorded_by_its_sha256(
    models: Path, served: CountingHub, tmp_path: Path
) -> None:
    known = known_at(served.url)
    ids = {path.name: git_blob_id(path.read_bytes()) for path in (models / REPO).iterdir() if path.is_file()}
    files = [replace(file, sha256=None, git_blob_id=ids.get(file.path)) for file in known.release.files]
    plain = replace(known, release=replace(known.release, files=tuple(files)))
    manifest = stream(plain, known.layout(TP2), tmp_path / "out")
    assert manifest.verified
    for source in manifest.sources:
        assert source.sha256 == hashlib.sha256((models / REPO / source.path).read_bytes()).hexdigest()
    lied = [replace(file, git_blob_id="0" * 40) if file.path.startswith("model-0") else file for file in files]
    other = replace(known, release=replace(known.release, files=tuple(lied)))
    with pytest.raises(IntegrityError, match="its release states 0000"):
        stream(other, known.layout(TP2), tmp_path / "lied")
    assert rank_files(tmp_path / "lied") == []
