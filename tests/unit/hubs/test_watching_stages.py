"""Roles, stages and rules: pure judgements."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile
from dayzero.domain.watching import RepoListing, Rule
from dayzero.stages.watching.roles import role_of
from dayzero.stages.watching.stages import decide, index_to_read, is_pickle_only, judge_files, names_in_index, stage_of


def files_named(*names: str, size_bytes: int = 10) -> tuple[RepoFile, ...]:
    return tuple(RepoFile(name, size_bytes, role_of(name), "a" * 64) for name in names)


def index_of(*names: str) -> bytes:
    return json.dumps({"weight_map": {f"t{number}": name for number, name in enumerate(names)}}).encode()


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("config.json", FileRole.CONFIGURATION),
        ("generation_config.json", FileRole.CONFIGURATION),
        ("hf_quant_config.json", FileRole.CONFIGURATION),
        ("preprocessor_config.json", FileRole.CONFIGURATION),
        ("model-00001-of-00002.safetensors", FileRole.WEIGHTS),
        ("pytorch_model.bin", FileRole.WEIGHTS),
        ("original/consolidated.00.pth", FileRole.WEIGHTS),
        ("model-Q4.gguf", FileRole.WEIGHTS),
        ("model.safetensors.index.json", FileRole.WEIGHTS_INDEX),
        ("pytorch_model.bin.index.json", FileRole.WEIGHTS_INDEX),
        ("tokenizer.json", FileRole.TOKENIZER),
        ("merges.txt", FileRole.TOKENIZER),
        ("tokenizer.model", FileRole.TOKENIZER),
        ("qwen.tiktoken", FileRole.TOKENIZER),
        ("chat_template.jinja", FileRole.TOKENIZER),
        ("modeling_x.py", FileRole.REMOTE_CODE),
        ("optimizer.pt", FileRole.OTHER),
        ("training_args.bin", FileRole.OTHER),
        ("README.md", FileRole.OTHER),
        ("figures/loss.png", FileRole.OTHER),
    ],
)
def test_roles(path: str, role: FileRole) -> None:
    assert role_of(path) is role


@pytest.mark.parametrize(
    ("names", "index", "stage", "says"),
    [
        (["README.md"], None, ReleaseStage.ANNOUNCED, "neither"),
        (["config.json", "tokenizer.json"], None, ReleaseStage.CONFIG, "no weight file yet"),
        (["config.json", "optimizer.pt"], None, ReleaseStage.CONFIG, "no weight file yet"),
        (["config.json", "original/consolidated.00.pth"], None, ReleaseStage.CONFIG, "no weight file yet"),
        (["config.json", "model.safetensors"], None, ReleaseStage.WEIGHTS, "whole"),
        (["config.json", "m-00001-of-00002.safetensors"], None, ReleaseStage.WEIGHTS_PARTIAL, "1 of 2"),
        (["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"], None, ReleaseStage.WEIGHTS, "2 of 2"),
        (["m-00001-of-00002.safetensors", "m-00003-of-00002.safetensors"], None, ReleaseStage.WEIGHTS_PARTIAL, "1 of 2"),
        (["m-00001-of-00000.safetensors"], None, ReleaseStage.WEIGHTS_PARTIAL, "0 of 0"),
        (["a.safetensors", "b.safetensors"], index_of("a.safetensors", "b.safetensors"), ReleaseStage.WEIGHTS, "2 of 2"),
        (["a.safetensors"], index_of("a.safetensors", "b.safetensors"), ReleaseStage.WEIGHTS_PARTIAL, "missing: b.safetensors"),
        (["a.safetensors"], b"{", ReleaseStage.WEIGHTS_PARTIAL, "not JSON"),
        (["a.safetensors"], b"[" * 100_000, ReleaseStage.WEIGHTS_PARTIAL, "not JSON"),
        (["a.safetensors"], b'{"weight_map": {}}', ReleaseStage.WEIGHTS_PARTIAL, "no weight_map"),
        (["a.safetensors"], index_of("../a.safetensors"), ReleaseStage.WEIGHTS_PARTIAL, "outside"),
    ],
)
def test_stages(names: list[str], index: bytes | None, stage: ReleaseStage, says: str) -> None:
    judged, reason = stage_of(files_named(*names), index)
    assert judged is stage and says in reason


def test_empty_weight_files_are_not_there() -> None:
    assert stage_of(files_named("model.safetensors", size_bytes=0), None)[0] is ReleaseStage.WEIGHTS_PARTIAL
    assert stage_of(files_named("a.safetensors", size_bytes=0), index_of("a.safetensors"))[0] is ReleaseStage.WEIGHTS_PARTIAL


def test_pickle_only_repositories_are_live_and_marked() -> None:
    judged = judge_files(files_named("config.json", "pytorch_model.bin"), None)
    assert judged.stage is ReleaseStage.WEIGHTS
    assert [finding.code for finding in judged.findings] == ["pickle_only"]
    assert judged.findings[0].numbers == {"weight_files": 1, "weight_bytes": 10}
    assert is_pickle_only(files_named("pytorch_model.bin"))
    assert not is_pickle_only(files_named("pytorch_model.bin", "model.safetensors"))
    assert [finding.code for finding in judge_files(files_named("model.gguf"), None).findings] == ["no_configuration"]


def test_the_safetensors_index_decides() -> None:
    found = index_to_read(files_named("pytorch_model.bin.index.json", "model.safetensors.index.json", "x/model.bin.index.json"))
    assert found is not None and found.path == "model.safetensors.index.json"
    assert index_to_read(files_named("config.json")) is None


@given(st.integers(1, 40).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(1, count), min_size=1))))
def test_a_set_is_live_exactly_when_complete(drawn: tuple[int, set[int]]) -> None:
    count, numbers = drawn
    names = [f"model-{number:05}-of-{count:05}.safetensors" for number in numbers]
    expected = ReleaseStage.WEIGHTS if len(numbers) == count else ReleaseStage.WEIGHTS_PARTIAL
    assert stage_of(files_named("config.json", *names), None)[0] is expected
    everything = [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
    assert stage_of(files_named("config.json", *names), index_of(*everything))[0] is expected


@given(st.binary(max_size=200))
def test_any_bytes_are_an_index_or_a_reason(content: bytes) -> None:
    assert isinstance(names_in_index(content), frozenset | str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_names_of_any_document_stay_inside(document: object) -> None:
    named = names_in_index(json.dumps({"weight_map": document}).encode())
    if not isinstance(named, str):
        assert named
        for name in named:
            assert not name.startswith("/") and ".." not in name.split("/") and "\0" not in name and "\\" not in name


def listing(repo_id: str, task: str | None = None) -> RepoListing:
    return RepoListing(repo_id, "0" * 40, None, task)


def release_of(size_bytes: int, stage: ReleaseStage = ReleaseStage.WEIGHTS) -> Release:
    files = files_named("model.safetensors", size_bytes=size_bytes)
    return Release(HubKind.HUGGING_FACE, "acme/tiny", "0" * 40, stage, files, "c")


@pytest.mark.parametrize(
    ("rule", "listed", "release", "taken", "says"),
    [
        (Rule(), listing("acme/tiny"), None, True, "takes"),
        (Rule(author="ACME"), listing("acme/tiny"), None, True, "takes"),
        (Rule(author="other"), listing("acme/tiny"), None, False, "author acme is not other"),
        (Rule(author="other"), listing("tiny"), None, False, "author unknown"),
        (Rule(name_pattern="acme/q*"), listing("acme/tiny"), None, False, "does not match acme/q*"),
        (Rule(author="acme", name_pattern="acme/t*"), listing("/data/models/acme/tiny"), None, True, "takes"),
        (Rule(task="text-generation"), listing("acme/tiny"), None, False, "task unknown"),
        (Rule(task="text-generation"), listing("acme/tiny", "text-generation"), None, True, "takes"),
        (Rule(minimum_bytes=11), listing("acme/tiny"), release_of(10), False, "10 bytes are below the rule's minimum of 11"),
        (Rule(minimum_bytes=10), listing("acme/tiny"), release_of(10), True, "takes"),
        (Rule(minimum_bytes=11), listing("acme/tiny"), release_of(10, ReleaseStage.WEIGHTS_PARTIAL), True, "takes"),
    ],
)
def test_rules(rule: Rule, listed: RepoListing, release: Release | None, taken: bool, says: str) -> None:
    decision = decide(rule, listed, release)
    assert decision.taken is taken and says in decision.reason
