"""Modules that were made sensitive on purpose are those that keep their precision, and the policy makes the checks pass."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file  # noqa: E402 - after importorskip

from dayzero.adapters.runners import loading  # noqa: E402
from dayzero.adapters.runners.child import observe  # noqa: E402
from dayzero.adapters.runners.schemes import Schemed, policy_applied  # noqa: E402
from dayzero.domain.precision_policy import PrecisionPolicy, Promotion, SensitiveObserved  # noqa: E402
from dayzero.domain.runs import Observation, RunRequest  # noqa: E402
from dayzero.errors import BadInputError  # noqa: E402
from dayzero.steps.sensitive import Searched, read_policy, sensitive_report  # noqa: E402
from dummy_models import dummy_model  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
LAYERS = (1, 3)
OUTLIER = 60.0
"""Times a usual weight: with one scale a matrix, all others of it round to a handful of values."""


def gate(layer: int) -> str:
    return f"model.layers.{layer}.mlp.gate_proj"


def with_outliers(folder: Path) -> None:
    """One output channel of two gates is large, and leads nowhere: the same channel of the other projection is zero."""
    tensors = load_file(folder / "model.safetensors")
    for layer in LAYERS:
        tensors[f"{gate(layer)}.weight"][5] *= OUTLIER
        tensors[f"model.layers.{layer}.mlp.up_proj.weight"][5] = 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def searched(folder: str, **options: float | str) -> SensitiveObserved:
    found = observe(RunRequest(Observation.SENSITIVE, "cpu", folder, options={"tokens": 48, "scheme": "int8", **options}))
    assert isinstance(found, SensitiveObserved)
    return found


@pytest.fixture(scope="module")
def outliers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, SensitiveObserved]:
    """The model with outliers, and the search whose limit is what the scheme costs the model without them."""
    folder = dummy_model("llama", 0, "bfloat16", tmp_path_factory.mktemp("sensitive"))
    plain = searched(folder)
    assert plain.without is not None
    with_outliers(Path(folder))
    return folder, searched(folder, limit=1.3 * plain.without)


def test_exactly_the_modules_with_outliers_are_promoted(outliers: tuple[str, SensitiveObserved]) -> None:
    _folder, found = outliers
    assert found.policy is not None and found.without is not None and found.reached is not None
    assert {one.module for one in found.policy.promoted} == {gate(layer) for layer in LAYERS}
    assert found.without > found.limit >= found.reached
    assert len(found.tried) < 16 < found.modules
    again = searched(outliers[0], limit=found.limit)
    assert replace(again, observed_s=0.0) == replace(found, observed_s=0.0)


def test_no_smaller_set_meets_the_limit(outliers: tuple[str, SensitiveObserved]) -> None:
    folder, found = outliers
    promoted = {one.module for one in found.policy.promoted} if found.policy else set()
    native = loading.load_model(Path(folder), torch.bfloat16)
    ids = loading.text_tokens(Path(folder), native.config, loading.packaged_text()[1], 48).ids
    with torch.no_grad():
        exact = loading.load_model(Path(folder), torch.bfloat16).float()(ids).logits[0].double().log_softmax(-1)
    for names in combinations([one.module for one in found.alone], len(promoted) - 1):
        policy = PrecisionPolicy("int8", tuple(Promotion(name, None) for name in names))
        with torch.no_grad(), policy_applied(native, policy):
            ours = native(ids).logits[0].double().log_softmax(-1)
        assert float((exact.exp() * (exact - ours)).sum(-1).mean()) > found.limit, names


def test_a_model_is_as_it_was_after_its_policy(outliers: tuple[str, SensitiveObserved]) -> None:
    model = loading.load_model(Path(outliers[0]), torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids = torch.arange(16)[None]
    with torch.no_grad():
        plain = model(ids).logits
        for scheme in ("int8", "fp8_e4m3", "native"):
            with policy_applied(model, PrecisionPolicy(scheme, (Promotion(gate(1), 0.1),))):
                assert not torch.equal(model(ids).logits, plain) or scheme == "native"
            assert torch.equal(model(ids).logits, plain)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_report_and_the_file(outliers: tuple[str, SensitiveObserved]) -> None:
    _folder, found = outliers
    assert "2 of 29 modules keep their precision under int8" in sensitive_report(Searched(found, False)).headline
    document = b'{"schema": "dayzero.precision-policy/1", "scheme": "int8", "promoted": []}'
    assert read_policy(document, "p.json") == PrecisionPolicy("int8")
    for wrong in (b"{}", b"\xff", b'{"schema": "other/1", "scheme": "int8"}'):
        with pytest.raises(BadInputError):
            read_policy(wrong, "p.json")


def test_unknown_schemes_and_modules_are_refused(outliers: tuple[str, SensitiveObserved]) -> None:
    model = loading.load_model(Path(outliers[0]), torch.bfloat16)
    with pytest.raises(BadInputError, match="no precision scheme"):
        Schemed(model, "int3")
    with (
        pytest.raises(BadInputError, match="which this model does not have"),
        policy_applied(model, PrecisionPolicy("int8", (Promotion("model.layers.9.mlp", None),))),
    ):
        pass
