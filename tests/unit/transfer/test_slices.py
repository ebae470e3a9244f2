"""Slices: every needed byte is asked for once, and what is asked for beside is what the plan says."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, index_of_model, legal, spec_of
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.slices import GIB, SliceLimits, SlicePlan
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.transfer.slices import slices_of

EXACT = SliceLimits(near_bytes=0, overread_share=0.0, requests_per_gib=GIB, least_requests=1 << 40)


def bytes_of(tensor: ShardTensor, header: TensorHeader) -> set[int]:
    """Every byte of the source file that a rank's part of a tensor is made of, one element at a time."""
    bits = DTYPE_BITS[header.dtype]
    rows = tensor.rows or ((0, header.shape[0] if header.shape else 1),)
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    found: set[int] = set()
    for at, place in enumerate(itertools.product(*map(range, header.shape))):
        stretch = next(((first, last) for first, last in rows if not place or first <= place[0] < last), None)
        if stretch is None:
            continue
        if tensor.dim is not None:
            along = place[tensor.dim] - (stretch[0] if tensor.dim == 0 else 0)
            if not any(start <= along < stop for start, stop in pieces):
                continue
        found.update(range(header.begin + at * bits // 8, header.begin + -(-(at + 1) * bits // 8)))
    return found


def needed_by(manifest: ShardManifest, index: CheckpointIndex, ranks: set[int]) -> dict[str, set[int]]:
    headers = {header.name: header for header in index.tensors}
    needed: dict[str, set[int]] = {}
    for tensor in (tensor for file in manifest.files if file.rank in ranks for tensor in file.tensors):
        needed.setdefault(tensor.file, set()).update(bytes_of(tensor, headers[tensor.name]))
    return {file: one for file, one in needed.items() if one}


def check(plan: SlicePlan, needed: dict[str, set[int]]) -> None:
    """The plan's ranges rise, lie apart, cover what is needed, and its figures are those of its ranges."""
    assert [one.file for one in plan.files] == sorted(needed)
    for one in plan.files:
        assert all(begin < end for begin, end in one.ranges)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(one.ranges))
        read = {at for begin, end in one.ranges for at in range(begin, end)}
        assert needed[one.file] <= read
        assert one.needed_bytes == len(needed[one.file]) and one.read_bytes == len(read)
    assert plan.overread_bytes == plan.read_bytes - sum(map(len, needed.values()))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[TensorHeader, list[ShardTensor]]:
    """A tensor of any shape, and the parts that several ranks hold of it, all cut along one dimension."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    size = 2
    for extent in shape:
        size *= extent
    header = TensorHeader("t", "BF16", shape, "f", 100, 100 + size)
    dim = draw(st.sampled_from([None, *range(len(shape))]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, shape[0] - 1))
        rows = ((first, draw(st.integers(first + 1, shape[0]))),) if dim != 0 and draw(st.booleans()) else ()
        pieces: tuple[tuple[int, int], ...] = ()
        if dim is not None:
            cuts = sorted(draw(st.sets(st.integers(0, shape[dim]), min_size=2, max_size=4)))
            pieces = tuple(itertools.pairwise(cuts))[::2]
        whole = draw(st.integers(0, 4)) == 0
        local = list(shape)
        if rows:
            local[0] = sum(last - first for first, last in rows)
        if dim is not None and not whole:
            local[dim] = sum(stop - start for start, stop in pieces)
        cut = None if whole else dim
        parts.append(ShardTensor("t", "BF16", tuple(local), cut, 0, 1, "f", 0, size, () if whole else pieces, rows))
    return header, parts


@settings(max_examples=300, deadline=None)
@given(tensors(), st.integers(0, 40), st.floats(0, 2), st.integers(1, 20), st.integers(1, 50))
def test_any_parts_are_covered_once(
    case: tuple[TensorHeader, list[ShardTensor]], near: int, share: float, least: int, part: int
) -> None:
    header, parts = case
    files = tuple(ShardFile(rank, f"{rank}", 0, None, (one,)) for rank, one in enumerate(parts))
    manifest, index = ShardManifest("c", Degrees(tp=len(parts)), files), CheckpointIndex((header,))
    needed = needed_by(manifest, index, set(range(len(parts))))
    exact = slices_of(manifest, index, range(len(parts)), EXACT)
    check(exact, needed)
    assert exact.overread_bytes == 0
    limits = SliceLimits(near, share, 0, least, part)
    plan = slices_of(manifest, index, range(len(parts)), limits)
    check(plan, needed)
    joined = slices_of(manifest, index, range(len(parts)), replace(limits, part_bytes=GIB))
    assert joined.requests <= max(least, 1)
    assert all(end - begin <= part for one in plan.files for begin, end in one.ranges)
    assert joined.overread_bytes <= share * plan.needed_bytes or exact.requests > least


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, ShardManifest, list[int], bool]:
    """An architecture under degrees that it allows, and a node: some ranks, or whole tensor-parallel groups."""
    name = draw(st.sampled_from(sorted(MODELS)))
    degrees, redundant = draw(st.sampled_from(legal(name)))
    try:
        manifest = lay_out("c", spec_of(name), index_of_model(name), degrees, redundant)
    except UncuttableError:
        manifest = lay_out("c", spec_of(name), index_of_model(name), Degrees())
    size = manifest.degrees.tp
    grouped = draw(st.booleans()) and manifest.degrees.etp <= size
    if grouped:
        first = size * draw(st.integers(0, manifest.degrees.world // size - 1))
        return name, manifest, list(range(first, first + size)), True
    return name, manifest, sorted(draw(st.sets(st.integers(0, manifest.degrees.world - 1), min_size=1, max_size=4))), False


@settings(max_examples=60, deadline=None)
@given(nodes())
def test_a_node_gets_what_its_ranks_hold(case: tuple[str, ShardManifest, list[int], bool]) -> None:
    name, manifest, ranks, grouped = case
    index = index_of_model(name)
    exact = slices_of(manifest, index, ranks, EXACT)
    shard_bytes = sum(one.end - one.begin - one.padding_bytes for rank in ranks for one in manifest.files[rank].tensors)
    assert exact.shard_bytes == shard_bytes and exact.overread_bytes == 0 and exact.needed_bytes <= shard_bytes
    plan = slices_of(manifest, index, ranks, SliceLimits(least_requests=10_000))
    if grouped and manifest.degrees.ep == 1:
        assert plan.read_bytes <= 1.02 * shard_bytes, "a node with the whole group reads nearly nothing that it does not hold"
    few = slices_of(manifest, index, ranks, SliceLimits(requests_per_gib=0, least_requests=0))
    assert few.requests <= len(few.files) and few.needed_bytes == exact.needed_bytes


def strided(rows: int, columns: int) -> tuple[ShardManifest, CheckpointIndex]:
    header = TensorHeader("down", "BF16", (rows, columns), "f", 64, 64 + 2 * rows * columns)
    half = columns // 2
    files = tuple(
        ShardFile(rank, f"{rank}", 0, None, (
            ShardTensor("down", "BF16", (rows, half), 1, rank * half, (rank + 1) * half, "f", 0, rows * half * 2),
        ))
        for rank in (0, 1)
    )  # fmt: skip
    return ShardManifest("c", Degrees(tp=2), files), CheckpointIndex((header,))


def test_a_strided_slice_is_streamed_whole_and_the_waste_is_told() -> None:
    manifest, index = strided(100_000, 4096)
    plan = slices_of(manifest, index, [0])
    assert plan.streamed_tensors == 1
    assert plan.requests == -(-plan.read_bytes // SliceLimits().part_bytes)
    assert plan.overread_bytes == 99_999 * 4096
    both = slices_of(manifest, index, [0, 1])
    assert both.overread_bytes == 0 and both.streamed_tensors == 0 and both.read_bytes == index.weight_bytes


def test_wide_rows_are_asked_for_one_by_one() -> None:
    manifest, index = strided(8, 32 << 20)
    plan = slices_of(manifest, index, [1])
    assert plan.overread_bytes == 0
    assert [one.ranges[0] for one in plan.files] == [(64 + (32 << 20), 64 + (64 << 20))]


def test_gaps_that_nearly_touch_are_read_while_they_cost_little() -> None:
    headers = tuple(
        TensorHeader(f"t{number}", "U8", (10_000,), "f", number * 10_050, number * 10_050 + 10_000) for number in range(4)
    )
    held = tuple(ShardTensor(one.name, "U8", one.shape, None, 0, 1, "f", 0, 10_000) for one in headers)
    manifest = ShardManifest("c", Degrees(), (ShardFile(0, "0", 0, None, held),))
    plan = slices_of(manifest, CheckpointIndex(headers), [0])
    assert plan.files[0].ranges == ((0, 40_150),) and plan.overread_bytes == 150
    apart = slices_of(manifest, CheckpointIndex(headers), [0], SliceLimits(overread_share=0.001))
    assert apart.requests == 4 and apart.overread_bytes == 0


def test_a_rank_that_is_not_there_is_named() -> None:
    manifest, index = strided(4, 4)
    with pytest.raises(BadInputError, match="rank 7 is not in the layout"):
        slices_of(manifest, index, [0, 7])
    with pytest.raises(BadInputError, match="no rank"):
        slices_of(manifest, index, [])
    with pytest.raises(BadInputError, match="f holds nothing as tensor down, not what the layout was made from"):
        slices_of(manifest, CheckpointIndex(()), [0])


def test_a_tensor_that_is_not_what_the_layout_took_is_refused() -> None:
    manifest, index = strided(4, 4)
    shorter = CheckpointIndex((replace(index.tensors[0], shape=(2, 4), end=64 + 16),))
    with pytest.raises(BadInputError, match=r"holds BF16 \[2, 4\] as tensor down"):
        slices_of(manifest, shorter, [0])


def test_ranks_that_cut_a_tensor_along_different_dimensions_are_refused() -> None:
    manifest, _ = strided(4, 4)
    header = TensorHeader("down", "BF16", (4, 2, 4), "f", 64, 64 + 64)
    files = tuple(
        replace(
            manifest.files[rank], tensors=(replace(manifest.files[rank].tensors[0], shape=shape, dim=dim, start=0, stop=1),)
        )
        for rank, dim, shape in ((0, 1, (4, 1, 4)), (1, 2, (4, 2, 1)))
    )
    with pytest.raises(BadInputError, match="along several dimensions"):
        slices_of(replace(manifest, files=files), CheckpointIndex((header,)), [0, 1])
