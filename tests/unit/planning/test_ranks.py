"""What a plan says of a rank's weights is what the rank's files hold."""

import pytest

from architectures import index_of_model, legal, spec_of
from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.planning import Choices, Workload
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
