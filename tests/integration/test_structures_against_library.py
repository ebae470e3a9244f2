"""Every family's closed form against the modelling library: what it builds from its own default configuration.

The library is no oracle, so a difference has to be explained here, not averaged away.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from dayzero.stages.structure.families import FAMILIES
from dayzero.stages.structure.reading import read_spec

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

REFUSED = {
    "deepseek_v2": "its default configuration states no number of experts a token",
    "glm4_moe": "its default configuration states no head width, and the hidden size does not divide by the heads",
}
"""Families whose default configuration is not complete, and why: such a configuration is refused."""

OVERBUILT = {
    "longcat_flash": (28 * 256 * 4096 * 6144, "it gives zero experts weights, which no checkpoint holds"),
}
"""Parameters that the library builds and a checkpoint does not hold, and why."""

_BUILD = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
transformers.logging.set_verbosity_error()
for name in sys.argv[1:]:
    if name not in CONFIG_MAPPING:
        continue
    config = CONFIG_MAPPING[name]()
    auto = next((one for one in (AutoModelForCausalLM, AutoModel) if type(config) in one._model_mapping), None)
    auto = AutoModel if name == "bert" else auto
    if auto is AutoModelForCausalLM or name == "bert":
        with torch.device("meta"):
            model = auto.from_config(config)
        built = sum(parameter.numel() for parameter in model.parameters())
        print(json.dumps({"name": name, "built": built, "config": {**config.to_dict(), "model_type": name}}, default=str))
"""


@pytest.fixture(scope="module")
def built() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, *sorted(FAMILIES)], capture_output=True, text=True, timeout=570, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_most_families_are_compared(built: dict[str, dict[str, Any]]) -> None:
    assert len(built) >= 25


def test_closed_forms_are_what_the_library_builds(built: dict[str, dict[str, Any]]) -> None:
    different = {}
    for name, row in built.items():
        if name in REFUSED:
            continue
        spec = read_spec(json.dumps(row["config"]).encode(), None)
        if spec.parameters.total_language != row["built"] - OVERBUILT.get(name, (0, ""))[0]:
            different[name] = (spec.parameters.total_language, row["built"])
    assert different == {}
