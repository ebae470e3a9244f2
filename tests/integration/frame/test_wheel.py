"""A wheel of the tree, installed into an empty environment without torch, runs every command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bare_environment import environment_with

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.postgres]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("dayzero-*.whl")
    return environment_with(wheel, folder / "env") / "dayzero"


def run(dayzero: Path, *arguments: str, data_dir: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DAYZERO_", "PYTHON", "COV"))}
    environment = {**kept, "DAYZERO_DATA_DIR": data_dir}
    return subprocess.run(
        [str(dayzero), *arguments], env=environment, cwd=data_dir, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_wheel_runs_every_command(installed: Path) -> None:
    with TemporaryDirectory(prefix="dayzero-wheel-") as folder:
        Path(folder).chmod(0o711)
        (Path(folder) / "config.json").write_text(json.dumps(CONFIG))
        groups = ("", "watch", "run", "compat", "subscribe", "platform", "worker", "hub", "db")
        helps = [run(installed, *group.split(), "--help", data_dir=folder) for group in groups]
        assert [help.returncode for help in helps] == [0] * len(groups), [help.stderr for help in helps]
        upgraded = run(installed, "db", "upgrade", "--json", data_dir=folder)
        assert json.loads(upgraded.stdout)["revision"], upgraded.stderr
        platforms = json.loads(run(installed, "platform", "ls", "--json", data_dir=folder).stdout)
        assert {"cpu", "h200"} <= {profile["slug"] for profile in platforms["platforms"]}
        spec = json.loads(run(installed, "inspect", "config.json", "--json", data_dir=folder).stdout)
        assert len(spec["layers"]) == 2 and spec["known"] is None
        listed = run(installed, "compat", "ls", "--json", data_dir=folder)
        assert listed.returncode == 0, listed.stderr


def test_nothing_but_what_it_declares_is_there(installed: Path) -> None:
    script = "import importlib.metadata as found; print(*(one.name for one in found.distributions()))"
    listed = subprocess.run([str(installed.with_name("python")), "-c", script], capture_output=True, text=True, check=True)
    names = set(listed.stdout.split())
    assert {"dayzero", "prefect", "SQLAlchemy"} <= names
    assert not {"torch", "transformers", "numpy", "pytest", "hypothesis"} & names


def test_what_needs_torch_says_which_extra(installed: Path) -> None:
    with TemporaryDirectory(prefix="dayzero-wheel-") as folder:
        Path(folder).chmod(0o711)
        (Path(folder) / "config.json").write_text(json.dumps(CONFIG))
        probed = run(installed, "platform", "probe", "cpu", data_dir=folder)
        assert probed.returncode == 4 and "dayzero[worker]" in probed.stderr, (probed.returncode, probed.stderr)
