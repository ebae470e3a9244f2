"""The long proof of the memory model (tests/prove/test_memory.py), scaled down."""

import pytest

import memory_proof

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kind", ["dense", "moe", "mla"])
def test_a_small_model_takes_what_is_predicted(kind: str) -> None:
    found = memory_proof.run(kind, 1024, small=True)
    assert found["weights_bytes"] > 200 * 2**20
    assert found["state_bytes"] == found["predicted_items_bytes"]["state"]
    assert abs(found["error"]) <= memory_proof.TOLERANCE, found
