"""Bundles: what is in them, and that no name from a hub gets out of its place."""

import csv
import io
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dayzero.codec import load
from dayzero.domain.entry import CompatibilityEntry, EntryKey
from dayzero.domain.plan import Estimates, MemoryBudget, ParallelPlan, PlanReport
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.precision_policy import PrecisionPolicy, Promotion
from dayzero.domain.release import HubKind, Release, ReleaseStage
from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Mode, Verdict, VerificationReport
from dayzero.stages.bundle.escape import clean, csv_text, markdown_text
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.bundle.rendering import image_tag, render_bundle
from dayzero.stages.entries.deciding import derive_entry
from plans import DENSE, made_plan, made_report, shipped, structure

HOSTILE = (
    "org/m'; touch pwned; '",
    "org/$(touch pwned)`touch pwned`",
    'org/"${HOME}"\n- evil: true\ntouch pwned',
    "--local-dir=pwned",
    "<script>alert(1)</script>|[x](javascript:y)\n# title",
    "=cmd|' /C calc'!A0",
    "naïve\u202e\x1b[2J\x00\ud800",
)
KEY = EntryKey("org/m", "c" * 64, "cpu", "f" * 64, "torch", "bfloat16", Degrees(tp=3), Mode.INFERENCE)
RELEASE = Release(HubKind.HUGGING_FACE, "org/m", "a" * 40, ReleaseStage.WEIGHTS, (), "c" * 64)
STACK = Stack("cpu", {"torch": "2.13.0+cpu", "transformers": "5.24.0", "kernel": "6.1; rm -rf /", "vllm": "1.0\nevil"})
PLAN = PlanReport(
    "cpu",
    Workload(),
    ParallelPlan(Degrees(tp=3), (MemoryBudget(0, {"weights": 1000, "state": 24}, 4096),), ((0, 2),), Estimates(), None, ()),
    (),
    (),
    5,
)
MANIFEST = ShardManifest("c" * 64, Degrees(tp=3), (ShardFile(0, "rank0.safetensors", 1080, "d" * 64, ()),))


def entry_for(key: EntryKey, words: str = "x") -> CompatibilityEntry:
    found = VerificationReport(
        "inference-3",
        "cpu",
        Mode.INFERENCE,
        (Check(CheckLayer.PRECISION, "layers.three_way", "tp1", Verdict.PASS, Grade.MEASURED, words, 0.5, 2.0, n=12),),
        (Measurement("ttft_s", 0.25, "s", {"prompt": words, "tokens": 8}), Measurement("peak_bytes", 5e8, "bytes")),
        sample_text=f"{words}\n```\nmore",
    )
    return derive_entry(key, mode=Mode.INFERENCE, coverage=None, report=found, plan=None)


def render(
    key: EntryKey = KEY,
    release: Release = RELEASE,
    words: str = "x",
    *,
    planned: tuple[PlatformProfile, PlanReport] | None = None,
    policy: PrecisionPolicy | None = None,
) -> dict[str, BundleFile]:
    profile, plan = planned or (None, PLAN)
    spec = structure(DENSE) if planned else None
    files = render_bundle(entry_for(key, words), spec=spec, plan=plan, manifest=MANIFEST, release=release, stack=STACK,
                          profile=profile, policy=policy)  # fmt: skip
    assert list(files) == sorted(files, key=lambda file: file.path)
    return {file.path: file for file in files}


def launched(files: dict[str, BundleFile], folder: Path, **environment: str) -> tuple[int, list[list[str]], str]:
    """The launch script run in a folder with stand-ins for the tools: exit code, the commands it ran, its stderr."""
    tools = folder / "tools"
    tools.mkdir(parents=True)
    for name in ("hf", "torchrun", "vllm"):
        tool = tools / name
        tool.write_text(f'#!/bin/bash\nprintf \'%s\\0\' {name} "$@" END >> "$CALLS"\n')
        tool.chmod(0o755)
    script = folder / "launch.sh"
    script.write_text(files["launch.sh"].text, encoding="utf-8")
    calls = folder / "calls"
    calls.touch()
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", script, "--tokens", "4"],
        cwd=folder,
        env={"PATH": path, "CALLS": str(calls), "HOME": "/nowhere", "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    words = calls.read_text(encoding="utf-8").split("\0END\0")[:-1]
    return ended.returncode, [call.split("\0") for call in words], ended.stderr


def test_holds_everything_and_says_what_was_found() -> None:
    files = render()
    assert set(files) == {
        "Dockerfile", "README.md", "compose.yaml", "entry.json", "generate.py", "launch.sh", "performance.csv",
        "performance.md", "requirements.txt",
    }  # fmt: skip
    assert [name for name, file in files.items() if file.executable] == ["launch.sh"]
    guide = files["README.md"].text
    for figure in ("1,024", "4,096", "d" * 64, "0.25", "layers.three\\_way", "a" * 40, "500,000,000"):
        assert figure in guide
    assert json.loads(files["entry.json"].text)["key"]["model"] == "org/m"
    assert files["requirements.txt"].text == "torch==2.13.0\ntransformers==5.24.0\n"
    compile(files["generate.py"].text, "generate.py", "exec")


def test_launch_fetches_the_pinned_release_and_runs_the_plan(tmp_path: Path) -> None:
    code, calls, _ = launched(render(), tmp_path)
    assert code == 0
    fetch, run = calls
    assert fetch == ["hf", "download", "--revision", "a" * 40, "--local-dir", str(tmp_path / "model"), "--", "org/m"]
    assert run[:4] == ["torchrun", "--standalone", "--nproc-per-node", "3"]
    assert run[-8:] == ["--tp", "3", "--pp", "1", "--ep", "1", "--tokens", "4"]


def test_launch_takes_a_folder_that_is_there(tmp_path: Path) -> None:
    code, calls, _ = launched(render(), tmp_path, MODEL_DIR="/models/m")
    assert code == 0
    assert [call[0] for call in calls] == ["torchrun"]
    assert calls[0][calls[0].index("--model-dir") + 1] == "/models/m"


def test_launch_without_its_folder_says_so(tmp_path: Path) -> None:
    release = replace(RELEASE, hub=HubKind.DIRECTORY, repo_id=str(tmp_path / "absent"))
    code, calls, said = launched(render(release=release), tmp_path / "here")
    assert (code, calls) == (2, [])
    assert "set MODEL_DIR" in said


@pytest.mark.parametrize(
    ("engine", "degrees", "code", "words"),
    [
        ("vllm", Degrees(tp=2, pp=2, ep=2), 0, ["--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"]),
        ("torch", Degrees(tp=2, pp=2), 3, []),
        ("magic", Degrees(), 3, []),
    ],
)
def test_only_known_engines_and_plans_are_launched(
    tmp_path: Path, engine: str, degrees: Degrees, code: int, words: list[str]
) -> None:
    files = render(replace(KEY, engine=engine, plan=degrees))
    ended, calls, said = launched(files, tmp_path, MODEL_DIR="/models/m")
    assert ended == code
    if code:
        assert calls == []
        assert "No launch command is known" in said
    else:
        start = calls[0].index(words[0])
        assert calls[0][start : start + len(words)] == words


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_word_of_the_shell(tmp_path: Path, name: str) -> None:
    code, calls, said = launched(render(replace(KEY, dtype=name), replace(RELEASE, repo_id=name, revision=name)), tmp_path)
    assert code == 0, said
    assert calls[0][-2:] == ["--", clean(name)]
    assert calls[0][3] == clean(name)
    assert calls[1][calls[1].index("--dtype") + 1] == clean(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls", "launch.sh", "tools"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_value_of_the_compose_file(name: str) -> None:
    release = replace(RELEASE, hub=HubKind.DIRECTORY, repo_id=name, revision=name)
    service = yaml.safe_load(render(replace(KEY, model=name), release)["compose.yaml"].text)["services"]["model"]
    escaped = clean(name).replace("$", "$$")
    assert set(service) == {"build", "image", "environment", "volumes", "shm_size", "labels"}
    assert service["volumes"][0]["source"] == escaped
    assert service["labels"]["dayzero.model"] == escaped
    assert service["image"] == image_tag(name, "c" * 64)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_plain_text_in_the_guide_and_the_tables(name: str) -> None:
    files = render(replace(KEY, model=name), replace(RELEASE, repo_id=name), words=name)
    before, _, code = files["README.md"].text.partition("\n````text\n")
    inside, _, after = code.partition("\n````\n")
    assert "```" in inside
    guide = before + after
    assert "<script" not in guide
    assert "](javascript" not in guide
    assert "\x1b" not in guide and "\u202e" not in guide
    assert sum(line.startswith("# ") for line in guide.splitlines()) == 1
    rows = list(csv.reader(io.StringIO(files["performance.csv"].text)))
    assert [len(row) for row in rows] == [5, 5, 5]
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    for file in files.values():
        file.text.encode("utf-8")


@given(st.text(max_size=30))
def test_escapes_keep_to_one_line_and_one_cell(text: str) -> None:
    for escaped in (clean(text), markdown_text(text), csv_text(text)):
        assert len(escaped.splitlines()) <= 1
    assert "|" not in markdown_text(text).replace("\\|", "")
    assert "<" not in markdown_text(text)


@given(st.text(max_size=300), st.text(max_size=80))
def test_image_tags_are_always_valid(model: str, content: str) -> None:
    from dayzero.adapters.images.builder import _NAME

    tag = image_tag(model, content)
    assert _NAME.fullmatch(tag)
    assert len(tag) <= 255


def test_a_plan_brings_its_picture_its_descriptor_and_start_scripts(tmp_path: Path) -> None:
    degrees = Degrees(tp=8, pp=2)
    planned = shipped("h200"), made_report(made_plan(degrees, structure(DENSE)))
    files = render(replace(KEY, plan=degrees), planned=planned)
    assert {name for name, file in files.items() if file.executable} == {"launch.sh", "start-vllm.sh", "start-sglang.sh"}
    document = json.loads(files["launch.json"].text)
    assert document["schema"] == "dayzero.launch/1" and document["nodes"][1]["ranks"] == "8-15"
    for name in ("start-vllm.sh", "start-sglang.sh"):
        (tmp_path / name).write_text(files[name].text)
        subprocess.run(["bash", "-n", tmp_path / name], check=True)
    assert files["plan.svg"].text.startswith("<svg")
    guide = files["README.md"].text
    assert "(plan.svg)" in guide and "| 0-7 | 50,000,000,000 |" in guide and "node 1: ranks 8-15, stage 1" in guide
    unlisted = replace(shipped("h200"), engines={})
    few = render(replace(KEY, plan=degrees), planned=(unlisted, planned[1]))
    assert [name for name, file in few.items() if file.executable] == ["launch.sh"]
    assert "no source says" in few["launch.json"].text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text_in_what_a_plan_brings(name: str) -> None:
    planned = replace(shipped("h200"), title=name), made_report(made_plan(Degrees(tp=2), structure(DENSE)))
    files = render(replace(KEY, model=name), planned=planned)
    assert "<script" not in files["plan.svg"].text and "\x1b" not in files["plan.svg"].text
    assert json.loads(files["launch.json"].text)["model"] == name or not name.isprintable()
    for file in files.values():
        file.text.encode("utf-8")


def test_unknown_things_are_said_to_be_unknown() -> None:
    files = {
        file.path: file.text
        for file in render_bundle(
            derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=None, plan=None),
            spec=None,
            plan=None,
            manifest=None,
            release=RELEASE,
            stack=None,
        )
    }
    assert "No plan is known." in files["README.md"]
    assert "| parameters | unknown |" in files["README.md"]
    assert files["requirements.txt"] == ""
    assert "None." in files["performance.md"]


def test_a_precision_policy_comes_with_the_script_that_follows_it() -> None:
    policy = PrecisionPolicy("int8", (Promotion("model.layers.1.mlp.down_proj", 0.4),))
    files = render(policy=policy)
    assert load(PrecisionPolicy, files["precision_policy.json"].text) == policy
    compile(files["precision.py"].text, "precision.py", "exec")
    assert "precision.py precision_policy.json" in files["Dockerfile"].text
    assert "precision.py" not in render()
