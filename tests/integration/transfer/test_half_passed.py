"""A hashed file that was half way when its fetch ended: only what was under way comes again, and the hash is of the whole."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from architectures import MODELS, legal, spec_of, write_model
from dayzero.adapters.transfer.output import INCOMPLETE, JOURNAL
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.streaming import stream_shards
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import IntegrityError, UnavailableError
from dayzero.stages.layout.laying import UncuttableError, lay_out

pytest.importorskip("numpy")
pytestmark = pytest.mark.torch
FILE = "model.safetensors"


@dataclass
class Counted:
    """A hub of one file that counts what it is asked for, and goes away after so many bytes."""

    content: bytes
    window_bytes: int
    ends_after: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    sent_bytes: int = 0

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Iterator[tuple[int, memoryview]]:
        for begin, end in ranges:
            for at in range(begin, end, self.window_bytes):
                window = self.content[at : min(end, at + self.window_bytes)]
                if self.ends_after is not None and self.sent_bytes + len(window) > self.ends_after:
                    raise UnavailableError("it went away.")
                self.sent_bytes += len(window)
                self.asked.append((at, at + len(window)))
                yield at, memoryview(window)


@dataclass
class Case:
    """A checkpoint of one file, its release and a layout of it."""

    home: Path
    index: CheckpointIndex
    layout: ShardManifest

    @property
    def content(self) -> bytes:
        return (self.home / "model" / FILE).read_bytes()

    def run(self, hub: Counted, sha256: str | None = None) -> ShardManifest:
        stated = sha256 or hashlib.sha256(self.content).hexdigest()
        file = RepoFile(FILE, len(self.content), FileRole.WEIGHTS, sha256=stated)
        release = Release(HubKind.HUGGING_FACE, "acme/half", "0" * 40, ReleaseStage.WEIGHTS, (file,), "content")
        every = max(4096, len(self.content) // 9)
        return stream_shards(hub, release, self.index, self.layout, self.home / "out", None, checkpoint_bytes=every)

    def stop(self, hub: Counted, keep: float = 1.0) -> int:
        """A run whose hub goes away, and a journal of which only a part is left; how far that part says that the file came."""
        with pytest.raises(UnavailableError, match="went away"):
            self.run(hub)
        journal = self.home / "out" / JOURNAL
        lines = journal.read_bytes().splitlines(keepends=True)
        left = lines[: 1 + round(keep * (len(lines) - 1))]
        journal.write_bytes(b"".join(left) + b"torn")
        facts = [json.loads(line.partition(b" ")[2]) for line in left[1:]]
        return max((fact["to"] for fact in facts), default=0)

    def local(self) -> ShardManifest:
        return write_shards(self.home / "model", self.layout, self.home / "local", None)

    def compare(self, manifest: ShardManifest) -> None:
        assert manifest.verified and manifest.sources[0].sha256 == hashlib.sha256(self.content).hexdigest()
        assert [file.digest for file in manifest.files] == [file.digest for file in self.local().files]
        for path in (self.home / "local").glob("rank-*.safetensors"):
            assert (self.home / "out" / path.name).read_bytes() == path.read_bytes()


def case_of(home: Path, name: str, plan: tuple[Degrees, int], ranks: tuple[int, ...] | None = None) -> Case | None:
    index = write_model(name, home / "model")
    try:
        return Case(home, index, lay_out("content", spec_of(name), index, *plan, ranks=ranks))
    except UncuttableError:
        return None


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, tuple[Degrees, int]]:
    name = draw(st.sampled_from(sorted(MODELS)))
    return name, draw(st.sampled_from(legal(name, 8)))


@settings(max_examples=25)
@given(plans(), st.floats(0, 0.999), st.floats(0, 1), st.integers(1, 40_000), st.data())
def test_only_what_was_under_way_comes_again(
    chosen: tuple[str, tuple[Degrees, int]], cut: float, keep: float, window_bytes: int, data: st.DataObject
) -> None:
    name, plan = chosen
    world = plan[0].world
    ranks = data.draw(st.none() | st.sets(st.integers(0, world - 1), min_size=1).map(lambda some: tuple(sorted(some))))
    with tempfile.TemporaryDirectory() as place:
        case = case_of(Path(place), name, plan, ranks)
        assume(case is not None)
        size = len(case.content)
        to = case.stop(Counted(case.content, window_bytes, ends_after=int(cut * size)), keep)
        again = Counted(case.content, window_bytes)
        case.compare(case.run(again))
        before = sum(min(end, to) - begin for begin, end in again.asked if begin < to)
        assert again.sent_bytes == size - to + before
        first = min(header.begin for header in case.index.tensors)
        if ranks is None:
            assert before == min(to, first), "of what passed before, nothing but the file's header comes again"
        held = {tensor.name for file in case.layout.files for tensor in file.tensors if tensor.dim is None and not tensor.rows}
        here = [(header.begin, min(header.end, to)) for header in case.index.tensors if header.name in held]
        assert not [one for one in again.asked for begin, end in here if max(one[0], begin) < min(one[1], end)]


def test_only_the_last_window_comes_again(tmp_path: Path) -> None:
    case = case_of(tmp_path, "dense", (Degrees(tp=3), 0))
    assert case is not None
    hub = Counted(case.content, 1000, ends_after=len(case.content) - 1)
    to = case.stop(hub)
    assert to >= len(case.content) - 1000, "an orderly end loses nothing"
    again = Counted(case.content, 1000)
    case.compare(case.run(again))
    assert again.sent_bytes <= 1000 + min(header.begin for header in case.index.tensors)


def test_damaged_bytes_of_an_earlier_run_are_found_out(tmp_path: Path) -> None:
    case = case_of(tmp_path, "moe", (Degrees(tp=2), 0))
    assert case is not None
    case.stop(Counted(case.content, 4096, ends_after=len(case.content) * 3 // 4))
    unfinished = sorted((tmp_path / "out").glob(f"*{INCOMPLETE}"))[0]
    held = bytearray(unfinished.read_bytes())
    held[next(tensor.begin for tensor in case.layout.files[0].tensors)] ^= 1
    unfinished.write_bytes(held)
    again = Counted(case.content, 4096)
    case.compare(case.run(again))
    assert again.sent_bytes > len(case.content), "it passed from its start once more"


def test_a_publisher_who_states_another_hash_is_named(tmp_path: Path) -> None:
    case = case_of(tmp_path, "dense", (Degrees(tp=3), 0))
    assert case is not None
    case.stop(Counted(case.content, 4096, ends_after=len(case.content) // 2))
    with pytest.raises(IntegrityError, match="not what the hub said"):
        case.run(Counted(case.content, 4096), sha256="0" * 64)
    assert not list((tmp_path / "out").glob("rank-*.safetensors"))
