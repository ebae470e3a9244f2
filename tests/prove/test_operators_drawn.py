"""Operator calls over drawn inputs on a device with kernels of its own: no false alarm, and faults found where they show.

Figures in docs/proofs/operators_drawn.json, one series an architecture.
"""

import pytest

import sampling_scenes
from proofs import write_series

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3600)]

DTYPES, SEEDS = "float32,bfloat16,float16", "0,1,2,3,4"
FAULTS = {
    "llama": "silu,rsqrt,flush,softmax", "gemma2": "rsqrt,flush,softmax", "qwen3_moe": "silu,rsqrt,flush,softmax",
    "deepseek_v3": "silu,rsqrt,flush,softmax", "jamba": "silu,exp,flush", "falcon_h1": "silu,exp,flush",
    "qwen3_next": "silu,exp,flush",
}  # fmt: skip
"""Operators that the architecture calls with floating inputs of its own."""


@pytest.mark.parametrize("family", list(FAULTS))
def test_sound_runs_pass_and_planted_faults_are_named(family: str) -> None:
    sound = sampling_scenes.scene("clean", family, DTYPES, SEEDS)
    found = sampling_scenes.scene("planted", FAULTS[family], family, DTYPES)
    alarms = [row for row in sound if row["verdict"] not in ("pass", "not_run")]
    missed = [row for row in found if not sampling_scenes.is_found(row)]
    write_series(
        "operators_drawn.json",
        "dayzero.proof.operators-drawn/1",
        family,
        {
            "sound_runs": len(sound),
            "false_alarms": [row["reason"] for row in alarms],
            "distinct_calls": sum(row["calls"] for row in sound if row["seed"] == 0),
            "judged": sum(row["numbers"]["judged"] for row in sound),
            "identical": sum(row["numbers"]["identical"] for row in sound if row["seed"] == 0),
            "planted": len(found),
            "found": len(found) - len(missed),
            "named": {f"{row['fault']} in {row['dtype']}": row["reason"] for row in found},
        },
    )
    assert not alarms
    assert not missed
