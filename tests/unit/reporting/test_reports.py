"""Reports: what evidence becomes, what two of them differ in, and pages that no string can break."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dayzero.cli import report as command
from dayzero.codec import dump, load
from dayzero.domain.entry_report import LayerFigures, Report, ReportDiff
from dayzero.domain.observations import LayerError, LayerErrors, MemoryObserved, RankMemory, TensorError
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import CheckLayer, Culprit, Measurement, Verdict
from dayzero.errors import BadInputError
from dayzero.stages.memory.error import ERROR
from dayzero.stages.reporting.assembling import Known, report_of
from dayzero.stages.reporting.differing import diff_of, ratio
from dayzero.stages.reporting.picture_bars import performance_picture
from dayzero.stages.reporting.picture_layers import layers_picture
from dayzero.stages.reporting.picture_memory import memory_picture
from dayzero.steps.reporting import read_report
from dayzero.web.entry_pages import diff_file, report_file
from report_scenes import HOSTILE, checked, failing_entry, layers, memory, report


class Elements(HTMLParser):
    """The elements of a page and their attributes, as a browser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def error(rms: float | None) -> TensorError:
    return TensorError(100, rms, rms, 0.9999, 0 if rms is not None else 3)


def layer(index: int, own: float, cumulative: float) -> LayerError:
    native = error(0.004)
    return LayerError(
        index, f"model.layers.{index}", error(own), native, error(own), native, 1.0, error(cumulative), native, False, 64
    )


def observed(*found: LayerError) -> LayerErrors:
    return LayerErrors("bfloat16", "float32", "compiled", "eager", 64, "text", found)


def texts(svg: str) -> list[str]:
    return [(element.text or "") for element in ElementTree.fromstring(svg).iter() if element.tag.endswith(("text", "title"))]


def test_evidence_becomes_layers_with_culprit_and_inheritance() -> None:
    made = replace(failing_entry(), culprits=(Culprit(1, "model.layers.1.mlp", None, 0.3, 0.008),))
    evidence = observed(layer(0, 0.004, 0.004), layer(1, 0.3, 0.3), layer(2, 0.005, 0.31))
    found = report_of(made, Known(evidence=((made.checks[0], evidence),)))
    (series,) = found.layers
    assert [one.stands_out for one in series.layers] == [False, True, False]
    assert [one.inherits for one in series.layers] == [False, True, True]
    assert series.accused == (1,)
    assert series.layers[0].tolerance == pytest.approx(0.008)


def test_measured_memory_stands_beside_what_was_predicted_for_that_run() -> None:
    ranks = (RankMemory(0, 10, 1000, 200, 1100, 1500), RankMemory(1, 10, 900, 200, 1000, 1300))
    observation = MemoryObserved(Degrees(tp=2), "bfloat16", "sdpa", 512, 16, ranks)
    numbers = {"rank": 0, "predicted_weights_bytes": 1000, "predicted_state_bytes": 150, "predicted_state_beyond_bytes": 50}
    check = checked("memory.model", layer=CheckLayer.MEMORY_PARALLELISM, rung="tp2", numbers=numbers)
    figures = tuple(
        Measurement(ERROR, 0.0, "1", {"rank": 1, "item": item, "predicted_bytes": size, "measured_bytes": size})
        for item, size in (("weights", 900), ("peak", 1250))
    )
    made = replace(failing_entry(), measurements=figures)
    (series,) = report_of(made, Known(evidence=((check, observation),))).memory
    assert series.ranks[0].predicted_bytes == {"weights": 1000, "state": 200}
    assert series.ranks[0].measured_bytes == {"weights": 1000, "state": 200, "activations": 300}
    assert series.ranks[1].predicted_bytes == {"weights": 900, "activations": 350}


def test_a_layer_of_verification_fails_passes_or_says_what_it_lacks() -> None:
    found = {one.layer: one for one in report().verdicts}
    assert found[CheckLayer.PRECISION].verdict is Verdict.FAIL
    assert found[CheckLayer.PRECISION].deciding == "layers.three_way"
    assert found[CheckLayer.PRECISION].interval == "perplexity 24.6 to 47.2 (95 %)"
    assert found[CheckLayer.END_TO_END].verdict is Verdict.PASS
    assert found[CheckLayer.OPERATOR_COVERAGE].verdict is Verdict.NOT_RUN


def test_features_are_shown_by_the_checks_that_ran() -> None:
    found = {(one.name, one.value): one.verdict for one in report().features}
    assert found["dtype", "bfloat16"] is Verdict.FAIL
    assert found["plan", "tp3"] is Verdict.NOT_RUN
    assert found["engine", "transformers (torch 2.9.0, transformers 5.0.0)"] is Verdict.PASS


def test_the_plot_names_the_culprit_and_says_each_figure() -> None:
    said = texts(layers_picture(layers()))
    assert "layer 11" in said
    assert any(one.startswith("layer 11, model.layers.11: culprit") for one in said)
    assert any("equal to the native reference bit for bit" in one for one in said)
    assert any("4 of 512 tokens left out" in one for one in said)


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(0, 1e30)), st.one_of(st.none(), st.floats(0, 1e30)), st.floats(1e-17, 1e3)),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_figures_are_drawn_inside_the_picture(rows: list[tuple[float | None, float | None, float]]) -> None:
    figures = tuple(
        LayerFigures(index, "m", own, native, None, tolerance, own is None, False, False, 1, 0, "")
        for index, (own, native, tolerance) in enumerate(rows)
    )
    drawn = ElementTree.fromstring(layers_picture(replace(layers(), layers=figures, accused=(0,))))
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for dot in drawn.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(dot.attrib["cx"]) <= width and 0 <= float(dot.attrib["cy"]) <= height


def test_memory_bars_stay_inside_and_say_their_items() -> None:
    drawn = ElementTree.fromstring(memory_picture(memory(20)))
    for box in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        if box.attrib["width"] != "100%":
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= 720
    assert any(one == "weights measured: 6.00 GB" for one in texts(memory_picture(memory())))


def test_performance_is_drawn_by_unit_or_not_at_all() -> None:
    assert performance_picture(()) is None
    drawn = performance_picture(report().entry.measurements)
    assert drawn is not None and {"0.12 s", "1,234 tokens/s"} <= set(texts(drawn))


def test_what_differs_is_named_with_its_figures() -> None:
    after = replace(
        report(series=layers(guilty=None), stack={"torch": "2.10.0", "transformers": "5.0.0"}),
        entry=replace(
            failing_entry(),
            checks=(checked("layers.three_way"), *failing_entry().checks[1:]),
            measurements=(Measurement("ttft", 0.24, "s", {"plan": "tp1", "path": "org/model"}),),
        ),
    )
    found = diff_of(report(), after)
    assert [(one.check, one.before, one.after) for one in found.checks if one.changed] == [
        ("layers.three_way", Verdict.FAIL, Verdict.PASS)
    ]
    assert [one.name for one in found.packages] == ["torch"]
    assert [(one.index, one.stood_out, one.stands_out) for one in found.layers] == [(11, True, False)]
    assert found.layers_compared == 32
    assert {one.name: one.ratio for one in found.measurements} == {"ttft": 2.0, "tpot": None, "throughput": None}
    assert "torch" in diff_file(found) and "no longer" in diff_file(found)
    assert load(ReportDiff, dump(found)) == found


def test_a_report_against_itself_differs_in_nothing() -> None:
    found = diff_of(report(), report())
    assert not [one for one in found.checks if one.changed]
    assert found.layers == () and found.packages == () and found.notes == ()
    assert {one.ratio for one in found.measurements} == {1.0}
    assert ratio(0.0, 1.0) is None and ratio(None, 1.0) is None


def test_no_string_breaks_a_page() -> None:
    for page in (report_file(report(HOSTILE)), diff_file(diff_of(report(HOSTILE), report()))):
        found = Elements()
        found.feed(page)
        assert "script" not in found.names and not [name for name in found.attributes if name.startswith("on")]
        assert "\x1b" not in page and "\u202e" not in page
        assert not re.search(r"A{4000}", page) and len(page) < 100_000
        assert "default-src 'none'" in page and 'style="' not in page


def test_a_page_loads_nothing() -> None:
    page = report_file(report())
    assert not re.search(r"""(src|href)=["'](?!#)""", page)
    assert page.count("<svg") == 3 and page.count("<style>") == 1
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_report_is_read_again_from_its_file(tmp_path: Path) -> None:
    kept = tmp_path / "run.json"
    kept.write_bytes(dump(report()))
    assert read_report(kept.read_bytes(), "run.json") == report()
    for wrong in (b"[]", b"{", b'{"schema": "dayzero.verify/1"}', b'{"schema": "dayzero.report/1"}'):
        with pytest.raises(BadInputError):
            read_report(wrong, "run.json")


def test_files_become_pages_and_differences_by_command(tmp_path: Path) -> None:
    first, second, page = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "page.html"
    first.write_bytes(dump(report()))
    second.write_bytes(dump(report(series=layers(guilty=None))))
    run = CliRunner()
    assert run.invoke(command.app, [str(first), "--out", str(page)]).exit_code == 0
    assert page.read_text() == report_file(report()) or "Layer by layer" in page.read_text()
    told = json.loads(run.invoke(command.app, ["page", str(first), "--json"]).stdout)
    assert told["schema"] == "dayzero.report/1" and load(Report, json.dumps(told)) == report()
    found = json.loads(run.invoke(command.app, ["diff", str(first), str(second), "--json"]).stdout)
    assert found["schema"] == "dayzero.report-diff/1" and [one["index"] for one in found["layers"]] == [11]
    assert "1 of 32 layers moved" in run.invoke(command.app, ["diff", str(first), str(second)]).stdout
    assert "fail" in run.invoke(command.app, [str(first)]).stdout
    for arguments in ([str(first), "--out", str(tmp_path / "x.txt")], [str(tmp_path / "none.json")]):
        assert isinstance(run.invoke(command.app, arguments).exception, BadInputError)
