"""Two releases of the real modelling library, and a model type that only the newer one knows."""

from pathlib import Path

import pytest

from dayzero import app
from dayzero.codec import load
from dayzero.domain.observations import LayerErrors
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunRequest
from dayzero.domain.stacks import StackChoice
from dayzero.errors import BlockedError
from dayzero.settings import Settings
from dayzero.steps import prestaging
from dayzero.steps.stacks import STACK, runner_of

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

OLDER, NEWER, TYPE = "5.10.4", "5.20.2", "granite_swa"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two stacks, locked by pip's resolver; what is installed is left out, for it knows the type too."""
    made = Settings(data_dir=tmp_path_factory.mktemp("data"), stacks=("older", "newer"))
    for name, version in (("older", OLDER), ("newer", NEWER)):
        app.add_stack(made, name, [f"transformers=={version}"], None)
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint of that type."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        TYPE, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        vocab_size=256, sliding_window=16, dtype="bfloat16", pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


def test_the_newer_one_is_taken_traced_and_run(settings: Settings, model: Path) -> None:
    work = app.local_work(settings, str(model), "cpu")
    inventory = prestaging.inventory(work.bench, work.lease).noun
    assert inventory.traced_with is not None and inventory.traced_with.startswith(f"transformers {NEWER},")
    kept = [one for one in work.bench.ledger.linked_results(work.lease.adaptation_id) if one.key.stage == STACK]
    choice = load(StackChoice, kept[-1].document)
    assert [(one.stack, one.knows) for one in choice.tried] == [("older", False), ("newer", True)]
    runner = runner_of(work.bench, work.lease)
    assert runner.stack().components["transformers"] == NEWER
    assert runner.stack().fingerprint != work.bench.runner.stack().fingerprint
    request = RunRequest(Observation.LAYERS, "cpu", str(model), options={"compile": False, "tokens": 32})
    limits = RunLimits(timeout_s=240)
    outcome = runner.run(request, limits)
    assert outcome.end is RunEnd.COMPLETED, f"{outcome.reason}\n{outcome.log_tail}"
    assert len(load(LayerErrors, outcome.document).layers) == 2
    assert work.bench.stacks is not None
    older = work.bench.stacks.runner(next(one for one in work.bench.stacks.recipes("cpu") if one.name == "older"))
    refused = older.run(request, limits)
    assert refused.end is not RunEnd.COMPLETED and TYPE in f"{refused.reason} {refused.log_tail}", "it really runs in its own"


def test_where_none_knows_it_the_versions_are_named(settings: Settings, model: Path) -> None:
    work = app.local_work(settings.model_copy(update={"stacks": ("older",)}), str(model), "cpu")
    with pytest.raises(BlockedError, match="no reference") as blocked:
        prestaging.require_reference(work.bench, work.lease)
    assert f"older (transformers {OLDER}) does not know {TYPE}" in str(blocked.value)
