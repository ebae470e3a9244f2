"""Routing: the bytes that routes bring to a rank file are those of its tensors, element by element, in any windows."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, index_of_model, legal, spec_of
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.transfer.routing import Route, Routes, routes_of, tensors_by_source

SOURCE = "model.safetensors"


def expected(source: bytes, tensor: ShardTensor, header: TensorHeader) -> bytes:
    """The tensor's bytes by walking over its elements one at a time."""
    axes = [list(range(extent)) for extent in header.shape]
    if tensor.rows:
        axes[0] = [at for first, last in tensor.rows for at in range(first, last)]
    if tensor.dim is not None:
        axes[tensor.dim] = [at for first, last in tensor.pieces or ((tensor.start, tensor.stop),) for at in range(first, last)]
    size, found = DTYPE_BITS[header.dtype] // 8, bytearray()
    for place in itertools.product(*axes):
        at = 0
        for extent, one in zip(header.shape, place, strict=True):
            at = at * extent + one
        found += source[header.begin + at * size : header.begin + (at + 1) * size]
    return bytes(found) + bytes(tensor.padding_bytes)


def brought(source: bytes, routes: Routes, files: int, window: int) -> list[dict[int, int]]:
    """Byte by byte what a reader of windows would write; a byte that comes twice is a failure."""
    written: list[dict[int, int]] = [{} for _ in range(files)]
    for begin in range(0, len(source), window):
        end = min(begin + window, len(source))
        for route in routes.over(begin, end):
            for row, (start, stop) in itertools.product(range(route.count), route.spans):
                before = sum(one[1] - one[0] for one in route.spans if one[0] < start)
                for at in range(max(begin, route.begin + row * route.row_bytes + start),
                                min(end, route.begin + row * route.row_bytes + stop)):  # fmt: skip
                    to = route.offset + row * route.taken_bytes + before + at - route.begin - row * route.row_bytes - start
                    assert to not in written[route.target]
                    written[route.target][to] = source[at]
    return written


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(MODELS)), st.integers(0, 10_000), st.sampled_from([997, 65_536]))
def test_routes_bring_every_tensor_of_every_rank(name: str, choice: int, window: int) -> None:
    degrees, redundant = legal(name, 4)[choice % len(legal(name, 4))]
    index = index_of_model(name)
    try:
        layout = lay_out("content", spec_of(name), index, degrees, redundant)
    except UncuttableError:
        return
    headers = {header.name: header for header in index.tensors}
    source = random.Random(choice).randbytes(max(header.end for header in index.tensors))
    (slices,) = tensors_by_source(layout).values()
    written = brought(source, routes_of(layout, slices, index.tensors), len(layout.files), window)
    for file, found in zip(layout.files, written, strict=True):
        for tensor in file.tensors:
            mine = bytes(found.pop(at, 0) for at in range(tensor.begin, tensor.end))
            assert mine == expected(source, tensor, headers[tensor.name]), tensor.name
        assert not found


def test_only_the_asked_ranks_are_routed() -> None:
    layout = lay_out("content", spec_of("dense"), index_of_model("dense"), Degrees(tp=3))
    (some,) = tensors_by_source(layout, [1]).values()
    routes = routes_of(layout, some, index_of_model("dense").tensors)
    assert {route.target for route in routes.routes} == {1}
    (whole,) = tensors_by_source(layout).values()
    assert len(whole) == 3 * len(some)


def test_windows_find_their_routes_past_longer_ones() -> None:
    long, short, late = Route(0, 100, 1, ((0, 100),), 0, 0, 0), Route(10, 5, 1, ((0, 5),), 1, 0, 0), Route(
        200, 4, 2, ((1, 3),), 0, 100, 1
    )  # fmt: skip
    routes = Routes([late, short, long])
    assert list(routes.over(50, 60)) == [long] and list(routes.over(12, 13)) == [long, short]
    assert list(routes.over(100, 200)) == [] and list(routes.over(207, 300)) == [late]
    assert routes.wanted() == ((0, 100), (200, 208))
    assert (late.taken_bytes, late.contiguous, long.contiguous) == (2, False, True)


@pytest.mark.parametrize("change", [{"dtype": "F16"}, {"shape": (3, 4)}, {"name": "other"}, {"shape": (4,), "dtype": "F32"}])
def test_a_file_that_is_not_what_the_layout_took(change: dict) -> None:
    header = TensorHeader("w", "BF16", (4, 4), "f", 0, 32)
    tensor = ShardTensor("w", "BF16", (4, 2), 1, 2, 4, "f", 80, 96)
    manifest = ShardManifest("c", Degrees(), (ShardFile(0, "0", 96, None, (tensor,)),))
    assert routes_of(manifest, [(0, 0)], [header]).routes == (Route(0, 8, 4, ((4, 8),), 0, 80, 0),)
    with pytest.raises(BadInputError, match="not what the layout was made from"):
        routes_of(manifest, [(0, 0)], [replace(header, **change)])


def test_tensors_without_bytes_have_no_routes() -> None:
    empty = ShardTensor("e", "BF16", (0, 4), None, 0, 0, "f", 80, 80)
    scalar = ShardTensor("s", "F32", (), None, 0, 1, "f", 80, 84)
    manifest = ShardManifest("c", Degrees(), (ShardFile(0, "0", 84, None, (empty, scalar)),))
    headers = [TensorHeader("e", "BF16", (0, 4), "f", 8, 8), TensorHeader("s", "F32", (), "f", 8, 12)]
    assert routes_of(manifest, [(0, 0), (0, 1)], headers).routes == (Route(8, 4, 1, ((0, 4),), 0, 80, 1),)
