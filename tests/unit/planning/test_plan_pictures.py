"""Pictures: well-formed, escaped, readable without colour or sight, and of bounded size."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Degrees
from dayzero.stages.explaining.picture import plan_picture
from plans import DENSE, EXPERTS, GB, LINEAR, cluster, made_plan, shipped, structure

SVG = "{http://www.w3.org/2000/svg}"
CASES = [
    (DENSE, Degrees(tp=2, pp=2), "h200", 1),
    (EXPERTS, Degrees(tp=8, ep=16, dp=2), "h200", 2),
    (LINEAR, Degrees(tp=4, pp=2, ep=32, dp=8), "cloudmatrix-384", 4),
]


def parsed(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    return root


def size(root: ElementTree.Element) -> tuple[float, float]:
    _, _, width, height = map(float, root.get("viewBox", "").split())
    return width, height


@pytest.mark.parametrize(("model", "degrees", "slug", "nodes"), CASES)
def test_a_picture_of_a_plan(model: str, degrees: Degrees, slug: str, nodes: int) -> None:
    root = parsed(plan_picture(made_plan(degrees, structure(model)), shipped(slug), "a model"))
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert {f"node {node}" for node in range(nodes)} <= set(texts) and f"node {nodes}" not in texts
    assert {str(rank) for rank in range(degrees.world)} <= set(texts)
    outlines = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "group"]
    assert len(outlines) == degrees.world // degrees.tp
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and title.text == "a model"
    assert description is not None and "60.0 GB of 80.0 GB" in (description.text or "")
    width, height = size(root)
    for element in root.iter(f"{SVG}rect"):
        if element.get("class") != "paper":
            assert float(element.get("x", "0")) + float(element.get("width", "0")) <= width
            assert float(element.get("y", "0")) + float(element.get("height", "0")) <= height


@pytest.mark.parametrize("slug", ["h200", "cloudmatrix-384", "ascend-910b-376t", "gb200-nvl72", "tpu-v5p", "mi300x"])
def test_texts_end_before_the_margin(slug: str) -> None:
    plan = made_plan(Degrees(tp=4, pp=6, ep=64, dp=16), structure(EXPERTS))
    root = parsed(
        plan_picture(plan, shipped(slug), f"organisation/a-model-of-a-rather-long-name-1T-A32B on {slug}: {plan.degrees}")
    )
    for element in root.iter(f"{SVG}text"):
        text, size = element.text or "", float(element.get("font-size", "0"))
        # A letter of a usual sans-serif is about 0.55 of its size wide, of a bold one 0.6.
        wide = len(text) * size * (0.6 if element.get("font-weight") else 0.55)
        at = float(element.get("x", "0")) - {"start": 0.0, "middle": wide / 2, "end": wide}[element.get("text-anchor", "start")]
        assert at >= 0 and at + wide <= 720, text


def test_bars_are_as_long_as_their_bytes() -> None:
    plan = made_plan(Degrees(), structure(DENSE), limit=100 * GB)
    root = parsed(plan_picture(plan, shipped("h200"), "a model"))
    bars = {(element.find(f"{SVG}title").text or "").split(":")[0]: float(element.get("width", "0"))
            for element in root.iter(f"{SVG}rect") if element.find(f"{SVG}title") is not None}  # fmt: skip
    assert bars["weights"] == pytest.approx(680 * 0.5, abs=0.1) and bars["state"] == pytest.approx(680 * 0.08, abs=0.1)
    (limit,) = [
        element
        for element in root.iter(f"{SVG}line")
        if element.get("class") == "limit" and element.get("y2") != element.get("y1")
    ][1:]
    assert float(limit.get("x1", "0")) == pytest.approx(700, abs=0.1)


def test_hostile_names_stay_text() -> None:
    hostile = '</title><script>alert(1)</script>" onload="x\x1b]0;\u202e'
    plan = replace(
        made_plan(Degrees(), structure(DENSE)), memory=(MemoryBudget(0, {'"><script>': 5 * GB, "weights": GB}, 8 * GB),)
    )
    text = plan_picture(plan, replace(shipped("h200"), slug=hostile), hostile)
    assert "<script" not in text and "\x1b" not in text
    assert all(element.tag != f"{SVG}script" for element in parsed(text).iter())
    assert not re.search(r"(href|src|url\()", text)


def test_thousands_of_ranks_are_grouped() -> None:
    plan = made_plan(Degrees(tp=8, pp=8, ep=128, dp=64), structure(EXPERTS))
    text = plan_picture(plan, shipped("h200"), "large")
    root = parsed(text)
    assert len(text) < 200_000 and size(root)[1] < 4000
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "ranks 0-511" in texts and any(said.startswith("and 488 more nodes") for said in texts)
    # A few nodes of every stage.
    assert {f"node {64 * stage}" for stage in range(8)} <= set(texts)


def test_without_a_limit_there_is_no_line() -> None:
    root = parsed(plan_picture(made_plan(Degrees(), structure(DENSE), limit=None), shipped("h200"), "a model"))
    assert not list(root.iter(f"{SVG}line"))


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 20), st.sampled_from([None, 1, 2, 8, 16, 72]), st.integers(0, 2))
def test_pictures_of_odd_worlds_stay_inside(tp: int, pp: int, dp: int, node: int | None, wider: int) -> None:
    domains = [("node", node), ("pod", node * 2**wider)] if node else []
    root = parsed(plan_picture(made_plan(Degrees(tp, pp, 1, dp), structure(DENSE)), cluster(node, *domains), "odd"))
    width, height = size(root)
    for element in root.iter(f"{SVG}rect"):
        if element.get("class") != "paper":
            assert float(element.get("x", "0")) + float(element.get("width", "0")) <= width + 0.1
            assert float(element.get("y", "0")) + float(element.get("height", "0")) <= height + 0.1
