"""Checkpoints of 6 GiB observed within 2 GiB of memory: docs/proofs/layer_streaming.json."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import streaming_proof
from proofs import write_series
from streaming_proof import GIB

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(7200)]
LIMIT_BYTES = 2 * GIB
MODELS = {"dense": streaming_proof.dense(69), "mixture": streaming_proof.mixture(21)}


TOKENS = 32


@pytest.mark.parametrize(("kind", "observation"), [("dense", "layers"), ("mixture", "layers"), ("dense", "perplexity")])
def test_six_gib_are_verified_within_two(kind: str, observation: str) -> None:
    with TemporaryDirectory() as at:
        folder, work = Path(at) / "model", Path(at) / "work"
        written = streaming_proof.write(folder, MODELS[kind])
        assert written >= 6 * GIB
        read_s = min(streaming_proof.plain_read_s(folder) for _ in range(2))
        streamed = streaming_proof.observe(folder, observation, LIMIT_BYTES, "auto", work, TOKENS)
        assert streamed["end"] == "completed", streamed
        held = streaming_proof.observe(folder, observation, 0, "memory", work, TOKENS)
        assert held["end"] == "completed", held
    assert streamed["source"]["streamed"] and not held["source"]["streamed"]
    assert streamed["peak_rss_bytes"] <= LIMIT_BYTES
    assert streamed["figures"] > 500 and streamed["digest"] == held["digest"]
    found = streaming_proof.figures(written, read_s, streamed, held)
    write_series("layer_streaming.json", "dayzero.proof.layer-streaming/1", f"{kind}, {observation}", found)
