"""Safetensors headers: honest ones are read, lying ones are refused in one sentence that names file and tensor."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.headers.reading import header_length, index_of, parse_header, parse_weight_map

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def tensor(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def parse(document: object, data_bytes: int, file: str = "a.safetensors") -> tuple[TensorHeader, ...]:
    header = json.dumps(document).encode()
    return parse_header(file, 8 + len(header) + data_bytes, header)


def test_honest_header() -> None:
    document = {
        "__metadata__": {"format": "pt"},
        "b": tensor("BF16", [2, 3], [8, 20]),
        "a": tensor(),
        "e": tensor(shape=[0], offsets=[20, 20]),
    }
    tensors = parse(document, 20)
    begin = 8 + len(json.dumps(document).encode())
    assert [(item.name, item.begin, item.end, item.elements) for item in tensors] == [
        ("a", begin, begin + 8, 2),
        ("b", begin + 8, begin + 20, 6),
        ("e", begin + 20, begin + 20, 0),
    ]


@pytest.mark.parametrize(
    ("document", "data_bytes", "words"),
    [
        ({"a": tensor(offsets=[0, 9])}, 9, "tensor a 9 bytes"),
        ({"a": tensor(), "b": tensor(offsets=[4, 12])}, 12, "tensor b overlap a by 4 bytes"),
        ({"a": tensor(), "b": tensor(offsets=[12, 20])}, 20, "hole of 4 bytes before tensor b"),
        ({"a": tensor()}, 16, "8 bytes after a that no tensor owns"),
        ({"a": tensor()}, 4, "tensor a up to byte"),
        ({"a": tensor(offsets=[8, 0])}, 8, "tensor a impossible offsets"),
        ({"a": tensor(offsets=[-8, 0])}, 8, "tensor a impossible offsets"),
        ({"a": tensor(shape=[2**62, 2**62])}, 8, "tensor a an impossible shape"),
        ({"a": tensor(shape=[True, 2])}, 8, "tensor a an impossible shape"),
        ({"a": tensor(shape="2")}, 8, "tensor a an impossible shape"),
        ({"a": tensor(dtype="F33")}, 8, "tensor a the dtype 'F33'"),
        ({"a": tensor(dtype=["F32"])}, 8, "tensor a the dtype"),
        ({"a": 3}, 8, "tensor a by no object"),
        ({"__metadata__": {"a": 3}}, 0, "__metadata__"),
        ([1, 2], 0, "not an object"),
    ],
)
def test_lying_header(document: object, data_bytes: int, words: str) -> None:
    with pytest.raises(BadInputError, match=r"a\.safetensors") as caught:
        parse(document, data_bytes)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b'{"a": 1, "a": 2}', "names a twice"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": {"shape": [' + b"9" * 5000 + b"]}}", "no JSON"),
    ],
)
def test_header_that_is_no_json(header: bytes, words: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_header("a.safetensors", 8 + len(header), header)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("first", "size", "words"),
    [
        (b"", 0, "0 bytes"),
        (b"\x01\x02", 2, "2 bytes"),
        (struct.pack("<Q", 2**63), 2**40, "9223372036854775808 bytes"),
        (struct.pack("<Q", 100_000_001), 2**40, "the format allows 100000000"),
        (struct.pack("<Q", 100), 50, "in a file of 50 bytes"),
        (struct.pack("<Q", 0), 50, "header of 0 bytes"),
    ],
)
def test_length_that_cannot_be(first: bytes, size: int, words: str) -> None:
    with pytest.raises(BadInputError) as caught:
        header_length(first, "a.safetensors", size)
    assert words in caught.value.message


def test_index_findings_name_each_disagreement() -> None:
    headers = {
        "1.safetensors": parse({"a": tensor(), "b": tensor(offsets=[8, 16])}, 16, "1.safetensors"),
        "2.safetensors": parse({"b": tensor(), "c": tensor(offsets=[8, 16])}, 16, "2.safetensors"),
    }
    weight_map = {"a": "2.safetensors", "b": "1.safetensors", "d": "3.safetensors"}
    index = index_of(headers, json.dumps({"weight_map": weight_map}).encode())
    assert [item.name for item in index.tensors] == ["a", "b", "c"]
    assert {finding.code: finding.numbers["count"] for finding in index.findings} == {
        "index.tensor_twice": 1,
        "index.file_missing": 1,
        "index.tensor_missing": 1,
        "index.wrong_file": 1,
        "index.tensor_unindexed": 1,
    }
    assert all(finding.severity == "error" for finding in index.findings)


def test_index_that_agrees_has_no_findings() -> None:
    headers = {"1.safetensors": parse({"a": tensor()}, 8, "1.safetensors")}
    assert index_of(headers, b'{"weight_map": {"a": "1.safetensors"}}').findings == ()
    assert index_of(headers, None).weight_bytes == 8


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "", "a\\b", "a//b", "./a"])
def test_index_with_a_path_that_climbs_out(path: str) -> None:
    with pytest.raises(BadInputError, match="no usable file for tensor a"):
        parse_weight_map(json.dumps({"weight_map": {"a": path}}).encode())


NAMES = ("w.first", "w.second", "w.third")


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from("12"), st.sets(st.sampled_from("abcd")), max_size=2),
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from("123"), min_size=1),
)
def test_every_disagreement_is_found_and_nothing_else(held: dict[str, set[str]], mapped: dict[str, str]) -> None:
    headers = {
        file: parse({name: tensor(offsets=[8 * at, 8 * at + 8]) for at, name in enumerate(sorted(names))}, 8 * len(names), file)
        for file, names in held.items()
    }
    found = {finding.code: set(finding.names) for finding in index_of(headers, mapped).findings}
    where = {name: sorted(file for file, names in held.items() if name in names) for name in "abcde"}
    expected = {
        "index.tensor_twice": {f"{name} in 1 and 2" for name, files in where.items() if len(files) > 1},
        "index.file_missing": set(mapped.values()) - set(held),
        "index.tensor_missing": {f"{name} ({file})" for name, file in mapped.items() if not where[name]},
        "index.wrong_file": {
            f"{name} (index: {file}, header: {where[name][0]})"
            for name, file in mapped.items()
            if where[name] and where[name][0] != file
        },
        "index.tensor_unindexed": {f"{name} ({files[0]})" for name, files in where.items() if files and name not in mapped},
    }
    assert found == {code: names for code, names in expected.items() if names}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_one_number_off_is_refused_by_name(data: st.DataObject) -> None:
    """Three tensors without holes, and one figure of the header changed."""
    document = {name: tensor(offsets=[8 * at, 8 * at + 8]) for at, name in enumerate(NAMES)}
    name = data.draw(st.sampled_from(NAMES))
    what, place = data.draw(st.sampled_from([("shape", 0), ("data_offsets", 0), ("data_offsets", 1)]))
    numbers = list(document[name][what])
    before = numbers[place]
    numbers[place] = data.draw(st.integers(-(2**70), 2**70).filter(lambda value: value != before))
    with pytest.raises(BadInputError, match=rf"a\.safetensors .*tensor {name} "):
        parse({**document, name: {**document[name], what: numbers}}, 24)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_read_or_refused(header: bytes, size: int) -> None:
    for call in (
        lambda: parse_header("f", size, header),
        lambda: header_length(header, "f", size),
        lambda: parse_weight_map(header),
    ):
        try:
            call()
        except BadInputError as error:
            assert error.message


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=6),
        JSON
        | st.fixed_dictionaries(
            {"dtype": st.sampled_from(["F32", "BF16", "F4", "X"]), "shape": st.lists(st.integers(0, 4), max_size=3) | JSON,
             "data_offsets": st.lists(st.integers(0, 32), min_size=2, max_size=2) | JSON}
        ),
        max_size=3,
    ),
    st.integers(0, 64),
)  # fmt: skip
def test_any_json_is_read_or_refused(document: dict, data_bytes: int) -> None:
    header = json.dumps(document).encode()
    try:
        tensors = parse_header("f", 8 + len(header) + data_bytes, header)
    except BadInputError:
        return
    assert sum(item.size_bytes for item in tensors) == data_bytes
