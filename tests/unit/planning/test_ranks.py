"""What a plan says of a rank's weights is what the rank's files hold."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import index_of_model, legal, spec_of
from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.planning import Choices, Recompute, Training, Workload
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.planning.ranks import RankMemory

MIXTURES = ("moe", "mla", "hybrid", "mxfp4")


@pytest.mark.parametrize("name", MIXTURES)
def test_weights_and_second_copies_are_the_files_bytes(name: str) -> None:
    spec, index, profile = spec_of(name), index_of_model(name), load_profiles(None)["h200"]
    copied = [(degrees, redundant) for degrees, redundant in legal(name, most=16) if redundant]
    assert copied
    for degrees, redundant in copied:
        memory = RankMemory(spec, index, profile, Workload(64, redundant_experts=redundant), None)
        budgets = memory.budgets(degrees, Choices())
        manifest = lay_out("c", spec, index, degrees, redundant)
        held = [one.items_bytes["weights"] + one.items_bytes.get("redundant_experts", 0) for one in budgets]
        assert held == [manifest.rank_weight_bytes(rank) for rank in range(degrees.world)]
        fullest = memory.fullest(degrees, Choices())
        assert fullest.total_bytes == max(one.total_bytes for one in budgets)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["dense", "moe", "hybrid"]), st.integers(0, 99), st.integers(1, 6), st.sampled_from([1, 2]),
       st.sampled_from(list(Recompute)), st.sampled_from([0, 1, 3]), st.sampled_from([1, 2, 3]))  # fmt: skip
def test_the_fullest_rank_in_training_is_the_fullest_of_all(name, which, depth, cp, recompute, zero, pieces) -> None:
    spec = spec_of(name)
    deep = replace(spec, layers=tuple(replace(spec.layers[at % len(spec.layers)], index=at) for at in range(13)))
    degrees, _ = legal(name, most=8)[which % len(legal(name, most=8))]
    degrees = replace(degrees, pp=depth, cp=cp)
    training = Training(tokens_per_step=64 * 240, sequence_tokens=64, recompute=recompute, zero=zero)
    memory = RankMemory(deep, None, load_profiles(None)["h200"], Workload(training=training), None)
    choices = Choices(virtual_stages=pieces)
    budgets = memory.budgets(degrees, choices)
    fullest = memory.fullest(degrees, choices)
    assert fullest.total_bytes == max(one.total_bytes for one in budgets)
    assert budgets[fullest.rank].total_bytes == fullest.total_bytes
