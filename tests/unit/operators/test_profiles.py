"""Platform profiles: the shipped ones, a user's own, and what is wrong with a bad file."""

from pathlib import Path

import pytest

from dayzero.adapters.profiles.load import choose_profile, load_profiles
from dayzero.domain.platforms import FigureStatus
from dayzero.errors import BadInputError, NotFoundError

SHIPPED = load_profiles(None)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_shipped_profiles() -> None:
    assert {"cpu", "a100", "h100", "h200", "b200", "mi300x", "gaudi3", "ascend-910b-376t", "ascend-910c"} <= set(SHIPPED)
    cpu = SHIPPED["cpu"]
    assert cpu.torch_device == "cpu" and cpu.memory_bytes is None and cpu.flops_per_s == {}
    h200 = SHIPPED["h200"].memory_bytes
    assert h200 is not None and (h200.value, h200.status) == (141e9, FigureStatus.ASSUMED)
    h100 = SHIPPED["h100"]
    assert h100.flops_per_s["bfloat16"].value == 989e12 and h100.link_domains[0].devices == 8
    assert "float8" not in SHIPPED["a100"].flops_per_s
    assert [domain.devices for domain in SHIPPED["ascend-910c"].link_domains] == [2, 16, 768]


def test_every_figure_has_a_source() -> None:
    for profile in SHIPPED.values():
        links = [figure for domain in profile.link_domains for figure in (domain.bandwidth_bytes_per_s, domain.latency_s)]
        for figure in (profile.memory_bytes, profile.memory_bandwidth_bytes_per_s, *profile.flops_per_s.values(), *links):
            assert figure is None or (figure.source and figure.value > 0)


def test_a_user_file_excludes_operators_on_a_shipped_platform(tmp_path: Path) -> None:
    text = 'slug = "cpu"\n[excluded_operators]\n"aten.topk.default" = "ties come out in another order"\n'
    cpu = load_profiles(write(tmp_path, "mine.toml", text))["cpu"]
    assert cpu.excluded_operators == {"aten.topk.default": "ties come out in another order"}
    assert cpu.torch_device == "cpu" and cpu.dtypes == SHIPPED["cpu"].dtypes
    assert cpu.figures_digest != SHIPPED["cpu"].figures_digest


def test_a_user_platform_on_a_base(tmp_path: Path) -> None:
    text = (
        'slug = "my-farm"\nbase = "h100"\ntitle = "Farm"\n'
        '[memory_bytes]\nvalue = 94e9\nunit = "B"\nsource = "our purchase order"\nstatus = "assumed"\n'
    )
    farm = load_profiles(write(tmp_path, "farm.toml", text))["my-farm"]
    assert farm.title == "Farm" and farm.memory_bytes is not None and farm.memory_bytes.value == 94e9
    assert farm.flops_per_s == SHIPPED["h100"].flops_per_s and farm.pool == "dayzero-my-farm"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slug = ", "bad.toml is not TOML"),
        ('title = "x"', "slug must be"),
        ('slug = "Big One"', "slug must be"),
        ('slug = "x"\nbase = "nothing"', "base 'nothing'"),
        ('slug = "x"\nmemory = 3', "memory: no such field"),
        ('slug = "x"\nmemory_bytes = 3', "memory_bytes: must be a table"),
        ('slug = "x"\n[memory_bytes]\nvalue = -3\nunit = "B"', "memory_bytes.value: must be a number above 0"),
        ('slug = "x"\n[memory_bytes]\nvalue = nan\nunit = "B"', "memory_bytes.value"),
        ('slug = "x"\n[memory_bytes]\nvalue = 3\nunit = "GB"\nsource = "s"\nstatus = "published"', "unit: must be B, not GB"),
        ('slug = "x"\n[memory_bytes]\nvalue = 3\nunit = "B"\nstatus = "published"', "source"),
        ('slug = "x"\n[memory_bytes]\nvalue = 3\nunit = "B"\nsource = "s"\nstatus = "rumour"', "status: must be one of"),
        ('slug = "x"\ndtypes = "float32"', "dtypes: must be a list"),
        ('slug = "x"\nlink_domains = 1', "link_domains: must be a list"),
        ('slug = "x"\n[[link_domains]]\nname = "n"\ndevices = 0', r"link_domains\[1\].devices"),
        ('slug = "x"\n[excluded_operators]\n"aten.mm.default" = ""', "excluded_operators.aten.mm.default"),
    ],
)
def test_a_bad_file_is_named_with_its_field(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        load_profiles(write(tmp_path, "bad.toml", text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not exist"):
        load_profiles(tmp_path / "nowhere")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match=r"binary\.toml cannot be read"):
        load_profiles(tmp_path)


def test_choosing_a_platform() -> None:
    assert choose_profile(SHIPPED, "h100").slug == "h100"
    assert choose_profile(SHIPPED, "ascend-910b-280t").slug == "ascend-910b-280t"
    with pytest.raises(BadInputError, match=r"several parts.*ascend-910b-280t, .*ascend-910b-313t, ascend-910b-376t"):
        choose_profile(SHIPPED, "ascend-910b")
    with pytest.raises(NotFoundError, match=r"no platform 'abacus'.*Known: .*cpu"):
        choose_profile(SHIPPED, "abacus")
