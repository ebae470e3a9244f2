"""Shards of one plan from those of another: byte for byte what the checkpoint itself would have given."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, legal, spec_of, write_model
from dayzero.adapters.transfer.resharding import reshard
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.app.resharding import reshard as reshard_folder
from dayzero.codec import dump
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest, WeightsState
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError, IntegrityError
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.layout.ranks import fold
from dayzero.stages.layout.replanning import index_of_shards


@st.composite
def two_plans(draw: st.DrawFn) -> tuple[str, tuple[Degrees, int], tuple[Degrees, int]]:
    name = draw(st.sampled_from(sorted(MODELS)))
    plans = st.sampled_from(legal(name, 8))
    return name, draw(plans), draw(plans)


def laid_out(name: str, index: CheckpointIndex, plan: tuple[Degrees, int]) -> ShardManifest | None:
    try:
        return lay_out("content", spec_of(name), index, *plan)
    except UncuttableError:
        return None


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("rank-*")}


@settings(max_examples=40, deadline=None)
@given(two_plans())
def test_resharded_is_what_the_checkpoint_gives(case: tuple[str, tuple[Degrees, int], tuple[Degrees, int]]) -> None:
    name, before, after = case
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        index = write_model(name, home / "model")
        first, second = laid_out(name, index, before), laid_out(name, index, after)
        if first is None or second is None:
            return
        written = write_shards(home / "model", first, home / "first", None)
        assert index_of_shards(written) == index
        again = lay_out("content", spec_of(name), index_of_shards(written), *after)
        assert again == second
        direct = write_shards(home / "model", second, home / "direct", None)
        found = reshard(home / "first", again, home / "second", None)
        assert contents(home / "second") == contents(home / "direct")
        assert found == direct == verify_shards(home / "second")


def shards_of(home: Path, degrees: Degrees) -> ShardManifest:
    index = write_model("moe", home / "model")
    (home / "model" / "config.json").write_text(json.dumps(MODELS["moe"]))
    return write_shards(home / "model", lay_out("content", spec_of("moe"), index, degrees), home / "shards", None)


def test_there_and_back(tmp_path: Path) -> None:
    shards_of(tmp_path, Degrees(tp=2))
    reshard_folder(tmp_path / "shards", tmp_path / "model", Degrees(ep=2, dp=2, pp=2), tmp_path / "spread", None)
    back = reshard_folder(tmp_path / "spread", tmp_path / "model" / "config.json", Degrees(tp=2), tmp_path / "back", None)
    assert contents(tmp_path / "back") == contents(tmp_path / "shards")
    assert [source.sha256 for source in back.sources] == [
        source.sha256 for source in verify_shards(tmp_path / "shards").sources
    ]


def test_a_word_that_was_given_for_shards_stays_named(tmp_path: Path) -> None:
    whole = shards_of(tmp_path, Degrees(tp=2))
    sources = tuple(replace(source, verified=True) for source in whole.sources)
    vouched = replace(whole, sources=sources, vouched_by="5" * 16)
    (tmp_path / "shards" / "manifest.json").write_bytes(dump(fold(vouched)))
    for integrity, state in ((Integrity.SHA256, WeightsState.VOUCHED), (Integrity.NONE, WeightsState.UNVERIFIED)):
        again = lay_out("content", spec_of("moe"), index_of_shards(vouched), Degrees())
        assert reshard(tmp_path / "shards", again, tmp_path / state.value, None, integrity=integrity).state is state


class EndedError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_run_that_ended_is_gone_on_with(tmp_path: Path, share: float) -> None:
    manifest = shards_of(tmp_path, Degrees(tp=2))
    layout = lay_out("content", spec_of("moe"), index_of_shards(manifest), Degrees(ep=2, dp=2))

    def ending(done: int, total: int | None) -> None:
        if done > share * (total or 0):
            raise EndedError

    with pytest.raises(EndedError):
        reshard(tmp_path / "shards", layout, tmp_path / "out", ending, checkpoint_bytes=4096)
    assert contents(tmp_path / "out").keys() == {f"{file.path}.incomplete" for file in layout.files}
    done: list[int] = []
    reshard(tmp_path / "shards", layout, tmp_path / "out", lambda at, _: done.append(at), checkpoint_bytes=4096)
    # What was durable is not written again.
    assert done[0] > 0
    direct = write_shards(tmp_path / "model", layout, tmp_path / "direct", None)
    assert contents(tmp_path / "out") == contents(tmp_path / "direct")
    assert verify_shards(tmp_path / "out") == direct


def test_a_damaged_shard_gives_nothing(tmp_path: Path) -> None:
    manifest = shards_of(tmp_path, Degrees(tp=2))
    damaged = tmp_path / "shards" / manifest.files[1].path
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(IntegrityError, match=manifest.files[1].path):
        reshard_folder(tmp_path / "shards", tmp_path / "model", Degrees(), tmp_path / "out", None)
    assert not (tmp_path / "out").exists()
    unchecked = reshard_folder(
        tmp_path / "shards", tmp_path / "model", Degrees(), tmp_path / "out", None, integrity=Integrity.NONE
    )
    assert [(source.sha256, source.verified) for source in unchecked.sources] == [(None, False)]


def test_what_cannot_be_resharded_says_why(tmp_path: Path) -> None:
    shards_of(tmp_path, Degrees(tp=2))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInputError, match="no shards were ever completed"):
        reshard_folder(tmp_path / "empty", tmp_path / "model", Degrees(), tmp_path / "out", None)
    with pytest.raises(BadInputError, match=r"config\.json cannot be read"):
        reshard_folder(tmp_path / "shards", tmp_path / "shards", Degrees(), tmp_path / "out", None)
    with pytest.raises(BadInputError, match="do not divide by tp 3"):
        reshard_folder(tmp_path / "shards", tmp_path / "model", Degrees(tp=3), tmp_path / "out", None)
    with pytest.raises(BadInputError, match="holds the shards that are read"):
        reshard_folder(tmp_path / "shards", tmp_path / "model", Degrees(), tmp_path / "shards", None)
    index = index_of_shards(verify_shards(tmp_path / "shards"))
    part = lay_out("content", spec_of("moe"), index, Degrees(tp=2), ranks=(0,))
    write_shards(tmp_path / "model", part, tmp_path / "part", None)
    with pytest.raises(BadInputError, match="no shards of rank 1"):
        reshard_folder(tmp_path / "part", tmp_path / "model", Degrees(), tmp_path / "out", None)
    assert not (tmp_path / "out").exists()
