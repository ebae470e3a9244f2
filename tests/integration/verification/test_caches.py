"""Caches in 8 bits: sound ones stay near the native cache, one whose scale is ignored does not, others say why not."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from dayzero.adapters.runners.agreement import agreement, overlap  # noqa: E402 - after importorskip
from dayzero.adapters.runners.child import observe  # noqa: E402
from dayzero.adapters.runners.quantized_cache import Quantizer  # noqa: E402
from dayzero.codec import dump, load  # noqa: E402
from dayzero.demo_models.make import make  # noqa: E402
from dayzero.domain.observed_caches import CachesObserved  # noqa: E402
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest  # noqa: E402
from dayzero.domain.verdict import Check, Verdict  # noqa: E402
from dayzero.stages.judging.checks import judge  # noqa: E402
from dummy_models import dummy_model  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def checked(folder: str, **options: bool | int) -> tuple[CachesObserved, dict[str, Check]]:
    request = RunRequest(Observation.CACHES, "cpu", folder, options=options)
    noun = observe(request)
    assert isinstance(noun, CachesObserved)
    checks = judge(request, RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, None), load).checks
    return noun, {check.check: check for check in checks}


def test_caches_of_a_sound_model_and_a_scale_that_is_ignored(tmp_path: Path) -> None:
    folder = str(make("llama-tiny", tmp_path / "llama"))
    noun, sound = checked(folder, windows=2)
    _noun, wrong = checked(folder, windows=2, ignore_scale=True)
    assert noun.cached_layers == 6 and noun.unable is None
    assert all("is not what was written" in check.reason for check in wrong.values())
    assert {check.verdict for check in wrong.values()} == {Verdict.FAIL}
    for name, check in sound.items():
        # Attention of these random weights is so peaked that 8-bit floats move it: that is the model's, not the cache's fault.
        assert "is not what was written" not in check.reason
        assert check.n == noun.formats[0].tokens == 46
        assert (wrong[name].measured or 0.0) > 5 * (check.measured or 0.0)
    by_format = {one.format: one for one in noun.formats}
    assert (by_format["int8/head"].kl or 1.0) < (by_format["fp8_e4m3/head"].kl or 0.0)


@pytest.mark.parametrize(("family", "why"), [("deepseek_v3", "latent"), ("falcon_h1", "no keys and values")])
def test_other_caches_are_not_run_and_say_why(tmp_path: Path, family: str, why: str) -> None:
    noun, checks = checked(dummy_model(family, 0, "bfloat16", tmp_path))
    assert {check.verdict for check in checks.values()} == {Verdict.NOT_RUN}
    assert why in (noun.unable or "")


def test_a_window_and_a_hybrid_have_ordinary_layers(tmp_path: Path) -> None:
    for family in ("gemma3_text", "qwen3_next"):
        noun, _checks = checked(dummy_model(family, 0, "bfloat16", tmp_path / family), windows=1, tokens=24)
        assert noun.unable is None and noun.cached_layers > 0, (family, noun.unable)


@pytest.mark.parametrize(("kind", "error"), [("fp8_e4m3/tensor", 2**-4), ("fp8_e4m3/head", 2**-4), ("int8/head", 1 / 127)])
def test_rounding_keeps_to_its_format(kind: str, error: float) -> None:
    states = (
        torch.randn(2, 4, 16, 32, generator=torch.Generator().manual_seed(0))
        * torch.tensor([1.0, 8.0, 64.0, 0.1])[:, None, None]
    )
    quantizer = Quantizer(kind)
    read = quantizer.rounded(states)
    largest = states.abs().amax(dim=(0, 2, 3), keepdim=True)
    bound = error * (states.abs() if kind.startswith("fp8") else largest) + 1e-2 * largest * kind.startswith("fp8")
    assert bool(((read - states).abs() <= bound).all())
    beyond = quantizer.rounded(states * 3)
    assert float(beyond.abs().max()) <= float(states.abs().max()) * 1.001
    assert quantizer.clipped > 0
    assert not torch.allclose(Quantizer(kind, ignored=True).rounded(states), states, rtol=0.5)


def test_agreement_of_the_largest_logits() -> None:
    exact = torch.randn(7, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (five, fifty) = agreement([exact], [exact * 1.01], [exact * 1.02])
    assert (five.k, fifty.k) == (5, 50)
    assert five.error_native == pytest.approx(0.01) and five.error_target == pytest.approx(0.02)
    assert five.overlap_target == fifty.overlap_target == 1.0
    assert overlap(-exact, exact, 5) == 0.0
