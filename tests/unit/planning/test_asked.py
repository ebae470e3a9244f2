"""What a user asks of a plan becomes one workload; nothing asked is no workload of its own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dayzero import app
from dayzero.domain.planning import Change, Objective, PlanTemplate, Training, Workload
from dayzero.errors import BadInputError, NotFoundError
from dayzero.settings import Settings
from dayzero.stages.planning.asked import Asked, asked_findings, workload_of
from small_structures import LLAMA, read

CHAT = PlanTemplate("chat", "Chat", Workload(8192, 64, ttft_s=2.0, objective=Objective.LATENCY, cache_dtypes=("fp8",)))
TUNE = PlanTemplate("tune", "Tune", Workload(objective=Objective.THROUGHPUT, training=Training(524288, 4096, lora_rank=16)))


def test_nothing_asked_is_what_verification_runs() -> None:
    assert workload_of(Asked(), None, devices_given=True) is None


def test_without_an_objective_devices_decide() -> None:
    asked = Asked(context_tokens=1000)
    assert workload_of(asked, None, devices_given=True) == Workload(1000, objective=Objective.THROUGHPUT)
    assert workload_of(asked, None, devices_given=False) == Workload(1000, objective=Objective.FEWEST_DEVICES)


def test_what_is_said_wins_over_the_template() -> None:
    found = workload_of(Asked(concurrency=8, objective=Objective.THROUGHPUT), CHAT, devices_given=False)
    assert found == replace(CHAT.workload, concurrency=8, objective=Objective.THROUGHPUT)


def test_training_needs_the_tokens_of_its_step() -> None:
    with pytest.raises(BadInputError, match="--tokens-per-step"):
        workload_of(Asked(lora_rank=8), None, devices_given=True)
    found = workload_of(Asked(tokens_per_step=1024, lora_rank=8), None, devices_given=True)
    assert found is not None
    assert found.training == Training(1024, 1024, lora_rank=8)
    tuned = workload_of(Asked(sequence_tokens=2048), TUNE, devices_given=True)
    assert tuned is not None
    assert tuned.training == Training(524288, 2048, lora_rank=16)


def test_a_longer_context_than_the_model_states_is_said() -> None:
    spec = read({**LLAMA, "max_position_embeddings": 2048})
    assert [finding.numbers for finding in asked_findings(spec, Workload(4096))] == [
        {"asked_tokens": 4096, "stated_tokens": 2048}
    ]
    assert not [*asked_findings(spec, Workload(2048))]


def test_a_request_names_shipped_and_own_templates(tmp_path: Path) -> None:
    own = tmp_path / "plans.toml"
    own.write_text('[ours]\ntitle = "Ours"\nconcurrency = 3\nobjective = "latency"\n')
    settings = Settings(plan_templates=own)
    request = app.plan_request(settings, Asked(), "ours", ("links=2x", "nodes=-1"), devices_given=False)
    assert request.workload == Workload(concurrency=3, objective=Objective.LATENCY)
    assert request.changes == (Change("links", factor=2.0), Change("nodes", more=-1))
    shipped = app.plan_request(settings, Asked(), "fine-tune", (), devices_given=False)
    assert shipped.workload is not None
    assert shipped.workload.training is not None
    with pytest.raises(NotFoundError, match="ours"):
        app.plan_request(settings, Asked(), "nobody's", (), devices_given=False)
    own.write_text(json.dumps({"not": "toml"}))
    with pytest.raises(BadInputError, match="not TOML"):
        app.plan_request(settings, Asked(), "ours", (), devices_given=False)
