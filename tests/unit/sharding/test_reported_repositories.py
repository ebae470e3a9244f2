"""Problems that people reported with what a repository holds, each with the smallest data that shows it."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from architectures import index_of_model, spec_of
from dayzero.domain.findings import Severity
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile
from dayzero.errors import BadInputError, BlockedError
from dayzero.stages.headers.files import disagreement, needed_small_files, needed_weights, unread_weights
from dayzero.stages.headers.reading import index_of, parse_header, parse_weight_map
from dayzero.stages.layout.laying import lay_out
from dayzero.steps.headers import FIRST_READ_BYTES, checkpoint_index
from dayzero.steps.unpickling import require_readable
from dayzero.steps.weights import require_agreement
from fakes_bench import make_bench

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def safetensors(*names: str) -> bytes:
    """A file of such tensors of two bytes each."""
    rows = {name: {"dtype": "BF16", "shape": [1], "data_offsets": [2 * at, 2 * at + 2]} for at, name in enumerate(names)}
    text = json.dumps(rows).encode()
    return struct.pack("<Q", len(text)) + text + bytes(2 * len(names))


class FilesHub:
    """A hub that holds files, and how much of them was read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.read_bytes = files, 0

    def read_range(self, _release: Release, path: str, begin: int, end: int) -> bytes:
        self.read_bytes += end - begin
        return self.files[path][begin:end]

    def read_small(self, _release: Release, path: str, _limit: int) -> bytes:
        return self.files[path]


def role_of(path: str) -> FileRole:
    if path.endswith((".safetensors", ".bin", ".pt")):
        return FileRole.WEIGHTS
    return FileRole.WEIGHTS_INDEX if path.endswith(".index.json") else FileRole.CONFIGURATION


def release_of(sizes: dict[str, int]) -> Release:
    files = tuple(RepoFile(path, size, role_of(path)) for path, size in sizes.items())
    return Release(HubKind.HUGGING_FACE, "org/model", "a" * 40, ReleaseStage.WEIGHTS, files, "c" * 64)


def index_of_files(files: dict[str, bytes]):
    release = release_of({path: len(content) for path, content in files.items()})
    return release, checkpoint_index(FilesHub(files), release)


def test_d01_index_files_and_headers_disagree() -> None:
    mapped = {"a": FIRST, "mtp.fc.weight": SECOND}
    release, index = index_of_files({INDEX: json.dumps({"weight_map": mapped}).encode(), FIRST: safetensors("a", "b")})
    lists = {finding.code: finding.names for finding in index.findings}
    assert lists == {
        "index.file_missing": (SECOND,),
        "index.tensor_missing": (f"mtp.fc.weight ({SECOND})",),
        "index.tensor_unindexed": (f"b ({FIRST})",),
    }
    with pytest.raises(BlockedError) as blocked:
        require_agreement(release, index)
    for name in (SECOND, "mtp.fc.weight", f"b ({FIRST})"):
        assert name in blocked.value.message
    with pytest.raises(BadInputError, match="index, files and headers disagree: 1 files that the index names are not there"):
        lay_out("c", spec_of("dense"), replace(index_of_model("dense"), findings=index.findings), Degrees())


def test_d01_the_index_names_one_of_two_files() -> None:
    mapped = json.dumps({"weight_map": {"a": FIRST}}).encode()
    _, index = index_of_files({INDEX: mapped, FIRST: safetensors("a"), SECOND: safetensors("b")})
    assert {finding.code: finding.names for finding in index.findings} == {"index.file_unindexed": (SECOND,)}
    assert SECOND in (disagreement(index.findings) or "")


def test_d01_fifteen_of_thirty_files_were_published() -> None:
    names = [f"model-{number:05d}-of-00030.safetensors" for number in range(1, 31)]
    mapped = json.dumps({"weight_map": {f"t{at}": name for at, name in enumerate(names)}}).encode()
    there = {name: safetensors(f"t{at}") for at, name in enumerate(names[:15])}
    _, index = index_of_files({INDEX: mapped, **there})
    lists = {finding.code: finding for finding in index.findings}
    assert lists["index.file_missing"].names == tuple(names[15:]) and lists["index.tensor_missing"].numbers["count"] == 15


def test_d03_copies_are_not_fetched_and_not_counted() -> None:
    sizes = {
        "model-00000-of-00002.safetensors": 4_792_272_488, "model-00001-of-00002.safetensors": 4_798_702_184,
        "model-00002-of-00002.safetensors": 4_170_342_232, "original/model.safetensors": 13_761_300_984,
        "metal/model.bin": 13_750_886_400, "pytorch_model.bin": 13_750_886_400, INDEX: 36_355, "config.json": 1_806,
    }  # fmt: skip
    release = release_of(sizes)
    mapped = {f"t{at}": f"model-{at:05d}-of-00002.safetensors" for at in range(3)}
    needed = needed_weights(release.files, mapped)
    assert [file.path for file in needed] == sorted(set(mapped.values()))
    assert sum(file.size_bytes for file in needed) == 13_761_316_904
    assert [file.path for file in needed_small_files(release.files)] == ["config.json", INDEX]
    assert unread_weights(release.files, mapped) == ()


def test_d03_a_stray_file_is_not_merged() -> None:
    mapped = {"a": FIRST, "b": SECOND}
    _, index = index_of_files({
        INDEX: json.dumps({"weight_map": mapped}).encode(), FIRST: safetensors("a"), SECOND: safetensors("b"),
        "model.safetensors": safetensors("a", "a.absmax"),
    })  # fmt: skip
    assert [tensor.name for tensor in index.tensors] == ["a", "b"]
    (finding,) = index.findings
    assert (finding.code, finding.severity) == ("index.copy_unread", Severity.WARNING)
    assert finding.names == ("model.safetensors",) and disagreement(index.findings) is None


def test_d03_pickles_alone_are_blocked_with_a_remedy(tmp_path: Path) -> None:
    release = release_of({"pytorch_model.bin": 100, "config.json": 10})
    assert needed_weights(release.files, None) == ()
    with pytest.raises(BlockedError, match=r"only as \.bin files"):
        require_readable(make_bench(tmp_path).bench, release)


def test_a_header_of_gigabytes_is_not_read() -> None:
    size = 20_000_000_000
    hub = FilesHub({"model.safetensors": struct.pack("<Q", 8_000_000_000) + bytes(FIRST_READ_BYTES)})
    with pytest.raises(BadInputError, match=r"model\.safetensors claims a header of 8000000000 bytes; the format allows"):
        checkpoint_index(hub, release_of({"model.safetensors": size}))
    assert hub.read_bytes == FIRST_READ_BYTES


def test_a_header_that_ends_early_is_refused() -> None:
    content = safetensors("a")
    hub = FilesHub({"model.safetensors": content[:20]})
    with pytest.raises(BadInputError, match=r"model\.safetensors"):
        checkpoint_index(hub, release_of({"model.safetensors": len(content)}))


def test_the_same_tensor_in_two_files_is_an_error() -> None:
    parts = {name: safetensors("a") for name in (FIRST, SECOND)}
    headers = {name: parse_header(name, len(data), data[8 : len(data) - 2]) for name, data in parts.items()}
    (finding,) = index_of(headers, None).findings
    assert finding.code == "index.tensor_twice" and finding.names == (f"a in {FIRST} and {SECOND}",)


@pytest.mark.parametrize("name", ["../a.safetensors", "/a.safetensors", "a/../../b.safetensors", "a\\b.safetensors", "a\0b"])
def test_files_that_climb_out_are_refused_by_name(name: str) -> None:
    with pytest.raises(BadInputError, match=r"model\.safetensors\.index\.json names no usable file for tensor a"):
        parse_weight_map(json.dumps({"weight_map": {"a": name}}).encode())
