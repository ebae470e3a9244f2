"""Single calls over drawn inputs: what is drawn and what is kept, what is left out, and a plugin's operator that is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dayzero.adapters.runners import call_sampler
from dayzero.adapters.runners.call_sampler import CallSampler
from dayzero.adapters.runners.drawn_inputs import DENORMAL, DISTRIBUTIONS, drawn, generator, large_of
from dayzero.adapters.runners.operator_capture import OperatorCapture
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.sampled import fact_of

pytestmark = pytest.mark.torch

OURS, REPLACED = "dayzero_tests.silu_up_to.default", "aten.silu.default"


@torch.library.custom_op("dayzero_tests::silu_up_to", mutates_args=())  # type: ignore[untyped-decorator]
def silu_up_to(x: torch.Tensor, most: float) -> torch.Tensor:
    """An activation that saturates: right for all that is smaller."""
    return torch.nn.functional.silu(x.clamp(max=most))


@torch.library.custom_op("dayzero_tests::topk_from_behind", mutates_args=())  # type: ignore[untyped-decorator]
def topk_from_behind(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of equal elements it takes the last ones, where the host may take others."""
    values, places = torch.topk(x.flip(-1), k)
    return values, x.shape[-1] - 1 - places


def sampled(
    run: Callable[[], object],
    replaced: dict[str, str] | None = None,
    known: dict[Any, CallFact] | None = None,
    *,
    natives: bool = True,
) -> CallSampler:
    sampler = CallSampler(known=known or {}, natives=natives)
    with torch.no_grad(), OperatorCapture(7, lambda: "model.layers.3.act", replaced or {}, (), sampler):
        run()
    return sampler


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_operator_that_saturates_shows_on_one_distribution_alone(dtype: torch.dtype) -> None:
    ours = torch.randn(7, 64).to(dtype)
    (call,) = sampled(lambda: silu_up_to(ours, 60.0), {OURS: REPLACED}).found
    fact = fact_of(call)
    assert (fact.operator, fact.verdict, fact.distribution) == (OURS, Verdict.FAIL, "large magnitude")
    assert not call.shared and call.module == "model.layers.3.act"
    assert {sample.distribution for sample in call.samples if sample.identical} >= {"normal", DENORMAL, "exact zeros"}
    (sound,) = sampled(lambda: silu_up_to(ours, 1e4), {OURS: REPLACED}).found
    assert fact_of(sound).verdict is Verdict.NOT_RUN, "equal to the host's kernel bit for bit says nothing"


def test_of_equal_elements_any_may_be_taken() -> None:
    ours = torch.randn(7, 32)
    equal = torch.zeros(2, 32)
    assert not torch.equal(topk_from_behind(equal, 4)[1], torch.topk(equal, 4)[1])
    (call,) = sampled(lambda: topk_from_behind(ours, 4), {"dayzero_tests.topk_from_behind.default": "aten.topk.default"}).found
    assert len(call.samples) == len(DISTRIBUTIONS) and fact_of(call).verdict is Verdict.NOT_RUN
    (own,) = sampled(lambda: torch.topk(ours, 4)).found
    assert all(sample.mismatched == 0 for sample in own.samples)
    assert fact_of(own).verdict is Verdict.NOT_RUN


def test_only_what_the_host_does_not_compute_itself_is_run() -> None:
    ours = torch.randn(7, 64)
    told = sampled(lambda: (torch.exp(ours), silu_up_to(ours, 60.0)), {OURS: REPLACED}, natives=False)
    assert [call.operator for call in told.found] == [OURS], "a plugin's operator in place of the host's"
    # What the plugin's operator is put together from is dispatched below it, and not the model's call.
    assert dict(told.left_out) == {call_sampler.NATIVE: 1}


def test_floating_values_are_drawn_and_everything_else_is_kept() -> None:
    mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    weight, repeated = torch.randn(6, 5).t(), torch.randn(1, 6).expand(5, 6)
    given = (weight, repeated, mask, torch.arange(4), torch.tensor(3.5), torch.tensor([True]), 2.5)
    source = generator(1, "a call")
    new_weight, new_repeated, *kept = drawn(given, DISTRIBUTIONS["normal"], source)
    assert new_weight.stride() == weight.stride() and not torch.equal(new_weight, weight)
    assert new_repeated.shape == (5, 6) and torch.equal(new_repeated[0], new_repeated[4])
    for mine, theirs in zip(kept[:-1], given[2:-1], strict=True):
        assert torch.equal(mine, theirs)
    assert kept[-1] == 2.5
    assert torch.equal(new_weight, drawn(given, DISTRIBUTIONS["normal"], generator(1, "a call"))[0]), "the same again"
    assert not torch.equal(new_weight, drawn(given, DISTRIBUTIONS["normal"], generator(2, "a call"))[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_distributions_are_what_their_names_say(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    for name, draw in DISTRIBUTIONS.items():
        values = draw(generator(name), (4096,), dtype).to(dtype).double()
        assert values.isfinite().all()
        size = values.abs()
        if name == DENORMAL:
            assert float(((size > 0) & (size < limits.tiny)).double().mean()) > 0.9
        elif name == "exact zeros":
            assert 0.4 < float((values == 0).double().mean()) < 0.6
        elif name == "large magnitude":
            assert float(size.max()) > 0.8 * large_of(dtype) and float(size.min()) < 2
        elif name == "heavy-tailed":
            assert float(size.max()) > 20 and float(size.median()) < 1


def test_what_is_known_or_too_large_or_has_nothing_to_draw_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = torch.randn(7, 64)
    first = sampled(lambda: (torch.exp(ours), torch.sin(ours))).found
    facts = {fact.key: fact for fact in map(fact_of, first)}
    again = sampled(lambda: (torch.exp(ours), torch.sin(ours), torch.cos(ours)), known=facts)
    assert [call.operator for call in again.found] == ["aten.cos.default"]
    assert [fact.operator for fact in again.used] == ["aten.exp.default", "aten.sin.default"]
    monkeypatch.setattr(call_sampler, "CALL_ELEMENTS", 100)
    left = sampled(lambda: (torch.exp(ours), torch.arange(3) + 1, ours.view(64, 7)))
    assert left.found == []
    assert dict(left.left_out) == {
        "more than 100 elements in its inputs": 1, "it has no floating argument to draw": 2,
        "it only looks at memory in another way": 1,
    }  # fmt: skip


def test_operators_that_write_to_their_arguments_leave_the_models_alone() -> None:
    ours, other = torch.ones(7, 8), torch.ones(7, 8)
    (call,) = sampled(lambda: ours.add_(other)).found
    assert torch.equal(ours, torch.full((7, 8), 2.0)) and torch.equal(other, torch.ones(7, 8))
    assert call.operator == "aten.add_.Tensor" and len(call.samples) == len(DISTRIBUTIONS)
