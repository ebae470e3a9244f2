"""A platform of one's own: the template, what the check says of it, and the shipped profiles under the same check."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dayzero.adapters.profiles.load import choose_profile, load_profiles, new_profile, read_profile
from dayzero.domain.findings import Severity
from dayzero.domain.platforms import FigureStatus, PlatformProfile
from dayzero.errors import BadInputError
from dayzero.stages.platforms.check import examine_profile
from dayzero.stages.platforms.template import platform_template

SHIPPED = load_profiles(None)
NAMED_IN_DESIGN = (
    "cpu", "a100", "h100", "h200", "h20", "b200", "gb200-nvl72", "mi300x", "mi355x", "gaudi3", "ascend-910b-376t",
    "ascend-910c", "cloudmatrix-384", "mlu590", "s5000", "trn2", "tpu-v5p", "tpu-v6e",
)  # fmt: skip
FIGURE = 'value = {value}\nunit = "{unit}"\nsource = "{source}"\nstatus = "published"\n'


def checked(tmp_path: Path, text: str) -> tuple[PlatformProfile, list[str], list[str]]:
    """The profile, what looks wrong, what is missing."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    profile = read_profile(path, None)
    findings = examine_profile(profile)
    wrong = [finding.message for finding in findings if finding.severity is not Severity.NOTE]
    return profile, wrong, [finding.subject for finding in findings if finding.severity is Severity.NOTE]


def test_every_platform_of_the_design_is_shipped() -> None:
    assert set(NAMED_IN_DESIGN) <= set(SHIPPED)


@pytest.mark.parametrize("slug", sorted(SHIPPED))
def test_nothing_looks_wrong_in_what_is_shipped(slug: str) -> None:
    assert [finding.message for finding in examine_profile(SHIPPED[slug]) if finding.severity is not Severity.NOTE] == []


def test_a_figure_nobody_publishes_is_absent_and_named() -> None:
    mlu590 = SHIPPED["mlu590"]
    assert mlu590.memory_bytes is None and mlu590.flops_per_s == {}
    assert {"memory_bytes", "flops_per_s", "memory_bandwidth_bytes_per_s"} <= set(mlu590.unpublished)
    s5000 = SHIPPED["s5000"]
    assert [domain.bandwidth_bytes_per_s for domain in s5000.link_domains] == [None, None]
    assert any(name.startswith("link_domains.node MTLink") for name in s5000.unpublished)


def test_of_several_answers_the_smaller_is_taken_and_both_are_told() -> None:
    for slug, field, value in (
        ("gb200-nvl72", "memory_bytes", 186e9), ("tpu-v5p", "memory_bandwidth_bytes_per_s", 2.46e12),
        ("s5000", "memory_bytes", 79.91e9), ("k100-ai", "memory_bytes", 40e9), ("cloudmatrix-384", "memory_bytes", 64e9),
    ):  # fmt: skip
        figure = getattr(SHIPPED[slug], field)
        assert (figure.value, figure.status) == (value, FigureStatus.ASSUMED), slug
    rate = SHIPPED["mi355x"].flops_per_s["bfloat16"]
    assert rate.value == 2300e12 and "2500e12" in rate.source and rate.status is FigureStatus.ASSUMED
    assert SHIPPED["cloudmatrix-384"].flops_per_s["bfloat16"].value == 353.9e12


def test_figures_that_contradict_each_other_everywhere_are_told_and_not_used() -> None:
    assert "do" not in SHIPPED["mlu590"].flops_per_s and "192 GB" in SHIPPED["mlu590"].notes


def test_a_name_that_stands_for_several_parts_is_refused_with_the_list() -> None:
    for name, part in (("ascend-910b", "ascend-910b-376t"), ("atlas-350", "atlas-350-84g"), ("tpu", "tpu-v6e")):
        with pytest.raises(BadInputError, match=f"several parts.*{part}"):
            choose_profile(SHIPPED, name)


def test_links_nest_and_are_slower_than_memory() -> None:
    trn2 = SHIPPED["trn2"]
    assert [domain.devices for domain in trn2.link_domains] == [16, 64]
    assert trn2.link_domains[0].bandwidth_bytes_per_s is not None
    assert trn2.link_domains[0].bandwidth_bytes_per_s.value == 512e9


def test_the_template_loads_as_it_is_and_says_what_is_missing(tmp_path: Path) -> None:
    profile, wrong, missing = checked(tmp_path, platform_template("my-npu", "npu"))
    assert (profile.slug, profile.torch_device, wrong) == ("my-npu", "npu", [])
    assert {"memory_bytes", "flops_per_s", "link_domains", "nic_bytes_per_s"} <= set(missing)


def test_the_template_filled_in_has_nothing_left_to_say(tmp_path: Path) -> None:
    text = platform_template("my-npu", "npu").replace("where you read it", "our purchase order")
    text = text.replace('vendor = ""', 'vendor = "acme"')
    lines = text.splitlines()
    filled = [line.removeprefix("# ") if _is_field(line) and "base =" not in line else line for line in lines]
    _, wrong, missing = checked(tmp_path, "\n".join(filled).replace("float8]", "float4]"))
    assert (wrong, missing) == ([], [])


def _is_field(line: str) -> bool:
    return line.startswith(
        ("# [", '# "', "# vendor", "# value", "# unit", "# source", "# status", "# name", "# devices", "# notes")
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[memory_bytes]\n" + FIGURE.format(value=80, unit="B", source="x"), "too little to be true.*80e9"),
        ("[memory_bytes]\n" + FIGURE.format(value=1e14, unit="B", source="x"), "that of the whole node"),
        ("[memory_bytes]\n" + FIGURE.format(value=80e9, unit="B", source="where you read it"), "template's words"),
        ("[flops_per_s.bfloat16]\n" + FIGURE.format(value=989, unit="FLOP/s", source="x"), "989e12"),
        ("[flops_per_s.bf16]\n" + FIGURE.format(value=989e12, unit="FLOP/s", source="x"), "bf16 is no dtype"),
        ('dtypes = ["float8"]\n[unsupported_dtypes.float8]\nvalue="no"\nsource="x"\nstatus="published"\n', "and not to be"),
        ('[[link_domains]]\nname = "a"\ndevices = 8\n[[link_domains]]\nname = "b"\ndevices = 12\n', "whole groups of 8"),
        (
            "[memory_bandwidth_bytes_per_s]\n" + FIGURE.format(value=1e12, unit="B/s", source="x")
            + '[[link_domains]]\nname = "a"\ndevices = 2\n[link_domains.bandwidth_bytes_per_s]\n'
            + FIGURE.format(value=2.1e12, unit="B/s", source="x"), "twice as fast as the device's own memory",
        ),
        (
            '[[link_domains]]\nname = "a"\ndevices = 2\n[link_domains.latency_s]\n'
            + FIGURE.format(value=5, unit="s", source="x"), "1e-6",
        ),
    ],
)  # fmt: skip
def test_what_looks_wrong_is_said_with_its_numbers(tmp_path: Path, text: str, complaint: str) -> None:
    _, wrong, _ = checked(tmp_path, 'slug = "mine"\ntorch_device = "cuda"\n' + text)
    assert len(wrong) == 1
    with pytest.raises(AssertionError, match=complaint):
        raise AssertionError(wrong[0])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[devices_per_node]\n" + FIGURE.format(value=7.5, unit="device", source="x"),
            "devices_per_node.value: must be a whole",
        ),
        ("[nic_bytes_per_s]\n" + FIGURE.format(value=50, unit="Gb/s", source="x"), "nic_bytes_per_s.unit: must be B/s"),
        ('[engines.vllm]\nvalue = ""\n', "engines.vllm.value: must be a text"),
        ('[collectives]\nvalue = "nccl"\nsource = "x"\nstatus = "sure"\n', "collectives.status: must be one of"),
        ("engines = 3\n", "engines: must be a table"),
        ("a = " + "[" * 5000, "is not TOML"),
        ('base = "ascend-910b"\n', "base 'ascend-910b' is no platform"),
    ],
)
def test_a_bad_field_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=f"mine.toml.*{complaint}"):
        checked(tmp_path, 'slug = "mine"\n' + text)


def test_a_template_is_never_written_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    new_profile("mine", "npu", path)
    before = path.read_text(encoding="utf-8")
    with pytest.raises(BadInputError, match="is there already"):
        new_profile("mine", "cuda", path)
    assert path.read_text(encoding="utf-8") == before
    for slug in ("", "A", "a_b", "../x", "-a", "a--b", "ä"):
        with pytest.raises(BadInputError, match="slug must be"):
            new_profile(slug, "npu", tmp_path / "other.toml")
    with pytest.raises(BadInputError, match="torch device"):
        new_profile("other", 'npu"\nx = "', tmp_path / "other.toml")
    with pytest.raises(BadInputError, match="cannot be written"):
        new_profile("other", "npu", tmp_path / "nowhere" / "other.toml")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_profile_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    text = platform_template("mine", "npu").replace("# [", "[").replace("# value", "value").replace("# unit", "unit")
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(lines) - 1))
        lines[place] = data.draw(
            st.sampled_from(["", "value = -1", 'value = "x"', "value = nan", "value = 1e400", "[a]", "=", "devices = 0"])
        )
    try:
        checked(tmp_path, "\n".join(lines))
    except BadInputError as error:
        assert "mine.toml" in error.message
