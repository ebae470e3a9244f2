"""Configuration and tokenizer beside the shards: a folder that stands for itself, and names that are trusted no further."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from architectures import MODELS, spec_of, write_model
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.app.converting import export
from dayzero.app.resharding import reshard
from dayzero.codec import dump
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest, SmallFile
from dayzero.errors import BadInputError, IntegrityError
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.layout.ranks import fold

SMALL = ("config.json", "tokenizer.json")


def shards_of(home: Path, degrees: Degrees, beside: tuple[str, ...] = SMALL) -> ShardManifest:
    index = write_model("moe", home / "model")
    (home / "model" / "config.json").write_text(json.dumps(MODELS["moe"]))
    (home / "model" / "tokenizer.json").write_text('{"version": "1.0"}')
    layout = lay_out("content", spec_of("moe"), index, degrees)
    return write_shards(home / "model", layout, home / "shards", None, beside=beside)


def tell(home: Path, manifest: ShardManifest) -> None:
    (home / "shards" / "manifest.json").write_bytes(dump(fold(manifest)))


def exported(home: Path) -> None:
    export(home / "shards", home / "out", None, integrity=Integrity.SHA256, progress=None)


def resharded(home: Path, config: Path | None = None) -> ShardManifest:
    return reshard(home / "shards", config, Degrees(ep=2, dp=2), home / "again", None)


def test_shards_are_resharded_and_exported_without_the_model(tmp_path: Path) -> None:
    manifest = shards_of(tmp_path, Degrees(tp=2))
    assert [file.path for file in manifest.beside] == list(SMALL)
    told = {name: (tmp_path / "model" / name).read_bytes() for name in SMALL}
    for path in (tmp_path / "model").iterdir():
        path.unlink()
    assert resharded(tmp_path).beside == verify_shards(tmp_path / "again").beside == manifest.beside
    exported(tmp_path)
    for folder in ("shards", "again", "out"):
        assert {name: (tmp_path / folder / name).read_bytes() for name in SMALL} == told


def test_another_configuration_goes_in_the_place_of_the_one_beside(tmp_path: Path) -> None:
    shards_of(tmp_path, Degrees(tp=2))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**MODELS["moe"], "note": "edited"}))
    resharded(tmp_path, other)
    assert (tmp_path / "again" / "config.json").read_bytes() == other.read_bytes()
    verify_shards(tmp_path / "again")


def test_shards_without_a_configuration_ask_for_one(tmp_path: Path) -> None:
    shards_of(tmp_path, Degrees(tp=2), beside=())
    with pytest.raises(BadInputError, match=r"config\.json cannot be read.*with --config"):
        resharded(tmp_path)
    assert resharded(tmp_path, tmp_path / "model").beside


@pytest.mark.parametrize("change", [lambda path: path.write_text("{}"), lambda path: path.unlink()])
def test_a_small_file_that_is_not_as_recorded_is_named_and_mended(tmp_path: Path, change: Callable[[Path], object]) -> None:
    manifest = shards_of(tmp_path, Degrees(tp=2))
    change(tmp_path / "shards" / "tokenizer.json")
    with pytest.raises(IntegrityError, match=r"differ from their manifest: tokenizer\.json"):
        verify_shards(tmp_path / "shards", integrity=Integrity.NONE)
    with pytest.raises(IntegrityError, match=r"tokenizer\.json"):
        exported(tmp_path)
    assert not (tmp_path / "out").exists()
    assert shards_of(tmp_path, Degrees(tp=2)) == manifest == verify_shards(tmp_path / "shards")


def test_a_small_file_that_its_release_does_not_state_ends_the_work(tmp_path: Path) -> None:
    index = write_model("moe", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}")
    layout = lay_out("content", spec_of("moe"), index, Degrees(tp=2))
    with pytest.raises(IntegrityError, match=r"config\.json has the sha256"):
        write_shards(
            tmp_path / "model", layout, tmp_path / "out", None, beside=("config.json",), stated={"config.json": "0" * 64}
        )
    with pytest.raises(BadInputError, match="no shards were ever completed"):
        verify_shards(tmp_path / "out")
    write_shards(tmp_path / "model", layout, tmp_path / "out", None, beside=("config.json",))
    verify_shards(tmp_path / "out")


@pytest.mark.parametrize("name", ["../escaped.json", "/etc/hostname", "rank-00000.safetensors", "manifest.json", ".lock", ""])
def test_a_manifest_that_names_what_it_must_not_is_refused(tmp_path: Path, name: str) -> None:
    manifest = shards_of(tmp_path, Degrees(tp=2))
    tell(tmp_path, replace(manifest, beside=(SmallFile(name, 2, "0" * 64),)))
    for work in (exported, resharded):
        with pytest.raises(BadInputError, match="the layout names"):
            work(tmp_path)
    assert not (tmp_path / "out").exists() and not (tmp_path / "again").exists()


def test_links_in_the_place_of_small_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "config.json").symlink_to(secret)
    with pytest.raises(BadInputError, match=r"config\.json is a symbolic link"):
        shards_of(tmp_path, Degrees(tp=2))
    assert secret.read_text() == "mine"
    (tmp_path / "shards" / "config.json").unlink()
    shards_of(tmp_path, Degrees(tp=2))
    (tmp_path / "shards" / "config.json").replace(tmp_path / "moved.json")
    (tmp_path / "shards" / "config.json").symlink_to(tmp_path / "moved.json")
    with pytest.raises(IntegrityError, match=r"config\.json"):
        verify_shards(tmp_path / "shards")
