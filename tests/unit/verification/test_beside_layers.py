"""Layers that nobody ran show as not run, with their number."""

from dataclasses import replace

from checkpoints import DEEPSEEK, spec_for
from dayzero.domain.observed_source import WeightSource
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.beside import beside_checks
from dayzero.stages.judging.sources import taken_from


def test_prediction_layers_are_not_run() -> None:
    plain = spec_for({**DEEPSEEK, "num_nextn_predict_layers": 0})
    assert beside_checks(plain, "tp1") == ()
    (prediction,) = beside_checks(replace(plain, predict_layers=2, towers=("vision", "audio")), "tp1")
    assert (prediction.check, prediction.verdict, prediction.n) == ("layers.multi_token_prediction", Verdict.NOT_RUN, 2)
    assert prediction.reason.startswith(
        "no reference: the 2 multi-token-prediction layers of deepseek_v3 come after the 4 layers"
    )
    assert "drops their tensors" in prediction.reason


def test_a_check_tells_that_weights_were_streamed_and_which_baseline_it_read() -> None:
    assert taken_from(None, None) == taken_from(WeightSource(False, "it fits"), None) == {}
    told = taken_from(WeightSource(True, "2 GiB are too few", 60, 7, 60, 55, 3, 20, 5, 8), "a" * 64)
    assert told["weights"] == "streamed layer by layer: 2 GiB are too few"
    assert (told["largest_layer_bytes"], told["weights_read_bytes"], told["experts_read"]) == (7, 55, "5 of 8")
    assert told["baseline"] == "a" * 64
