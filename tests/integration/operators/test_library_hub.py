"""Releases of a modelling library as a source of architectures: real pip, real PostgreSQL, an index of files that we wrote."""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import wheels
from dayzero import app
from dayzero.adapters.packages.library import LibraryHub
from dayzero.domain.adaptation import Purpose
from dayzero.domain.events import EventKind
from dayzero.domain.release import HubKind, ReleaseStage
from dayzero.domain.watching import Rule
from dayzero.errors import BadInputError, NotFoundError
from dayzero.settings import load_settings
from wheels import wheel

pytestmark = pytest.mark.postgres
publish = functools.partial(wheels.publish, package="transformers")

NEXT_GEN = """
raise SystemExit("a library that is watched must not run")
class NextGenConfig(PreTrainedConfig):
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    vocab_size: int = 128
"""


def library(folder: Path, version: str, types: Mapping[str, str]) -> Path:
    """A wheel of transformers that knows these types; each has a configuration module of its own."""
    pairs = ", ".join(f'("{name}", "{config}")' for name, config in types.items())
    members = {"transformers/models/auto/configuration_auto.py": f"NAMES = OrderedDict([{pairs}])\nraise SystemExit(1)\n"}
    for name, config in types.items():
        own = name.replace("-", "_")
        members[f"transformers/models/{own}/configuration_{own}.py"] = NEXT_GEN.replace("NextGenConfig", config)
    return wheel(folder, "transformers", version, members)


OLD = {"llama": "LlamaConfig"}
NEW = {**OLD, "next-gen": "NextGenConfig"}


def test_new_types_are_announced_once_with_an_event_and_a_prestage(
    index: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(index, library(tmp_path, "9.1.0", OLD))
    publish(index, library(tmp_path, "9.2.0rc1", {**NEW, "unborn": "UnbornConfig"}))
    publish(index, library(tmp_path, "9.2.0", NEW))
    settings = load_settings(database_url=database_url, data_dir=tmp_path / "data")
    with app.control_plane(settings) as plane:
        plane.watchbook.add_source(*app.source_location(settings, "pypi:Transformers", None), Rule(platforms=("cpu",)), None)
        (report,) = app.poll_once(plane)
        assert (report.error, report.errors, report.taken) == (None, (), ("transformers/next-gen@9.2.0",))
        (adaptation,) = plane.catalog.adaptations()
        assert (adaptation.purpose, adaptation.model) == (Purpose.PRESTAGE, "transformers/next-gen")
        release = plane.ledger.release(adaptation.release_id)
        assert (release.hub, release.stage, release.revision) == (HubKind.PYPI, ReleaseStage.ANNOUNCED, "9.2.0")
        config = json.loads(app.control_bench(plane).hub_of(release).read_small(release, "config.json", 10_000))
        assert (config["model_type"], config["hidden_size"], config["num_hidden_layers"]) == ("next-gen", 64, 2)
        told = [event.subject for event in plane.outbox.unemitted(50) if event.kind is EventKind.RELEASE_ANNOUNCED]
        assert told == ["transformers/next-gen"]

        assert app.poll_once(plane) == (), "an index is asked once an hour"
        (again,) = app.poll_once(plane, all_now=True)
        assert (again.seen, again.unchanged, again.new) == (1, 1, ())
        publish(index, library(tmp_path, "9.3.0", {**NEW, "after": "AfterConfig"}))
        (later,) = app.poll_once(plane, all_now=True)
        assert later.new == ("transformers/after@9.3.0",) and later.unchanged == 1
        told = [event.subject for event in plane.outbox.unemitted(50) if event.kind is EventKind.RELEASE_ANNOUNCED]
        assert told.count("transformers/after") == 1


def test_what_is_no_library_is_one_sentence(index: Path, tmp_path: Path) -> None:
    publish(index, wheel(tmp_path, "transformers", "1.0", {"transformers/__init__.py": ""}))
    hub = LibraryHub("transformers", tmp_path / "cache")
    with pytest.raises(BadInputError, match="no registry of model types"):
        list(hub.list_repos(author=None, task=None, since=None, limit=None))
    with pytest.raises(NotFoundError):
        list(LibraryHub("nothing-of-that-name", tmp_path / "cache").list_repos(author=None, task=None, since=None, limit=None))
    assert list(hub.list_repos(author="someone", task=None, since=None, limit=None)) == []


def test_an_architecture_has_one_small_file(index: Path, tmp_path: Path) -> None:
    publish(index, library(tmp_path, "9.2.0", NEW))
    hub = LibraryHub("transformers", tmp_path / "cache")
    release = hub.release("transformers/next-gen", None)
    whole = hub.read_small(release, "config.json", 10_000)
    assert release.files[0].sha256 == hashlib.sha256(whole).hexdigest()
    assert hub.read_range(release, "config.json", 2, 10) == whole[2:10]
    for refused in (
        lambda: hub.read_small(release, "model.safetensors", 10),
        lambda: hub.release("transformers/unknown", "9.2.0"),
    ):
        with pytest.raises(NotFoundError):
            refused()
    for refused in (
        lambda: hub.read_small(release, "config.json", 10),
        lambda: hub.read_range(release, "config.json", 9, 2),
        lambda: hub.download(release, "config.json", tmp_path, None),
    ):
        with pytest.raises(BadInputError):
            refused()
