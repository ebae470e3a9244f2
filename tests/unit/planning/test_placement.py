"""Placement: every rank sits somewhere, groups are what the degrees say, and a group that leaves its fast domain is named."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.planning import Degrees
from dayzero.stages.layout.partition import coordinates_of
from dayzero.stages.planning.placement import groups_of, outside, place, placement_warnings, position_of, ranges, spreads
from plans import cluster, shipped


@st.composite
def worlds(draw: st.DrawFn) -> Degrees:
    tp, pp, cp = (draw(st.integers(1, 6)) for _ in range(3))
    sharing, replicas = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    ep = tp * sharing if sharing * tp > 1 and draw(st.booleans()) else 1
    return Degrees(tp, pp, ep, sharing * replicas, cp)


@given(worlds(), st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 2))
def test_every_rank_sits_on_one_node_and_in_one_of_each_domain(degrees: Degrees, node: int, wider: int) -> None:
    profile = cluster(node, ("node", node), *([("pod", node * 2**wider)] if wider else []))
    places = place(degrees, profile)
    assert [at.rank for at in places] == list(range(degrees.world))
    on_node = [sum(at.node == number for at in places) for number in range(places[-1].node + 1)]
    assert max(on_node) <= node and min(on_node) >= 1
    for at in places:
        assert len(at.domains) == len([one for one in profile.link_domains if one.devices > 1])
        # Domains nest: who shares the smaller one shares the larger.
        for other in places:
            if at.domains and other.domains and at.domains[0] == other.domains[0]:
                assert at.domains == other.domains


@given(worlds())
def test_groups_are_the_degrees(degrees: Degrees) -> None:
    groups = groups_of(degrees)
    sizes = {"tp": degrees.tp, "cp": degrees.cp, "dp": degrees.dp, "pp": degrees.pp, "ep": degrees.ep if degrees.ep > 1 else 1}
    assert set(groups) == {kind for kind, size in sizes.items() if size > 1}
    for kind, found in groups.items():
        assert {len(ranks) for ranks in found} == {sizes[kind]}
        assert sorted(rank for ranks in found for rank in ranks) == list(range(degrees.world))
    for ranks in groups.get("ep", ()):
        assert sorted(position_of(rank, degrees).ep for rank in ranks) == list(range(degrees.ep))


@given(worlds(), st.sampled_from([1, 2, 4]))
def test_positions_are_those_of_the_shards(degrees: Degrees, slices: int) -> None:
    cut = degrees.ep % slices == 0 and degrees.ep > slices
    divided = replace(degrees, ep=degrees.ep // slices, etp=slices) if cut else degrees
    for rank in range(divided.world):
        at, held = position_of(rank, divided), coordinates_of(rank, divided)
        assert (at.tp, at.cp, at.dp, at.pp, at.ep) == (held.tp, held.cp, held.dp, held.pp, held.ep)


@given(worlds(), st.sampled_from([4, 8, 16]))
def test_a_tensor_parallel_group_that_fits_a_node_is_not_split_without_need(degrees: Degrees, node: int) -> None:
    places = place(degrees, cluster(node, ("node", node)))
    whole = node // degrees.tp * degrees.tp
    if whole and -(-degrees.world // whole) == -(-degrees.world // node):
        for ranks in groups_of(degrees).get("tp", ()):
            assert len({places[rank].node for rank in ranks}) == 1


def test_three_ranks_a_group_leave_two_devices_of_a_node_idle() -> None:
    places = place(Degrees(tp=3, dp=4), cluster(8, ("node", 8)))
    assert [at.node for at in places] == [0] * 6 + [1] * 6


def test_deepseek_on_two_nodes() -> None:
    degrees = Degrees(tp=8, ep=16, dp=2)
    found = {spread.kind: spread for spread in spreads(degrees, shipped("h200"))}
    assert found["tp"].domain is not None and found["tp"].domain.devices == 8 and found["tp"].left is None
    assert found["ep"].domain is None and found["ep"].nodes == 2
    assert placement_warnings(degrees, shipped("h200"), place(degrees, shipped("h200"))) == ()


def test_processes_of_a_host_talk_through_its_memory() -> None:
    (spread,) = spreads(Degrees(tp=2), shipped("cpu"))
    assert spread.nodes == 1 and outside(spread, shipped("cpu")) == "the host's own memory"
    assert placement_warnings(Degrees(tp=2), shipped("cpu"), place(Degrees(tp=2), shipped("cpu"))) == ()


def test_replicas_talk_in_training_alone() -> None:
    kinds = [
        [one.kind for one in spreads(Degrees(tp=2, dp=8), shipped("h200"), training=training)] for training in (False, True)
    ]
    assert kinds == [["tp"], ["tp", "dp"]]


def test_a_group_that_leaves_its_fast_domain_is_named_with_both_speeds() -> None:
    profile = shipped("h200")
    (said,) = placement_warnings(Degrees(tp=16), profile, place(Degrees(tp=16), profile))
    assert "groups of 16 leave node NVLink/NVSwitch (8 devices, 450 GB/s)" in said
    assert "the network between 2 nodes (50 GB/s a device)" in said
    supernode = shipped("cloudmatrix-384")
    (said,) = placement_warnings(Degrees(tp=4), supernode, place(Degrees(tp=4), supernode))
    assert "leave package SIO (2 dies) (2 devices, 224 GB/s)" in said and "supernode UB (768 devices, 196 GB/s)" in said


def test_what_nobody_knows_of_a_topology_is_said() -> None:
    unknown = cluster(None)
    said = " ".join(placement_warnings(Degrees(tp=4), unknown, place(Degrees(tp=4), unknown)))
    assert "how many devices a node has is not known" in said and "no link domain is known" in said
    assert {at.node for at in place(Degrees(tp=4), unknown)} == {0}
    crooked = cluster(8, ("ring", 3), ("pod", 16))
    said = " ".join(placement_warnings(Degrees(tp=2), crooked, place(Degrees(tp=2), crooked)))
    assert "ring of 3 devices does not divide node of 8: the profile's topology does not add up" in said


@pytest.mark.parametrize(("numbers", "said"), [((), ""), ((3,), "3"), ((0, 1, 2, 8, 10, 11), "0-2,8,10-11")])
def test_ranges(numbers: tuple[int, ...], said: str) -> None:
    assert ranges(numbers) == said
