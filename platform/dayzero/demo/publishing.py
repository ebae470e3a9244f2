"""Publishing to the local hub the way people do: the configuration first, the weights later, file by file."""

import shutil
from pathlib import Path


def publish_configuration(model_dir: Path, hub_dir: Path, repo_id: str) -> None:
    """Put only config.json into the repository."""
    _put(model_dir / "config.json", hub_dir / repo_id)


def publish_weights(model_dir: Path, hub_dir: Path, repo_id: str) -> None:
    """Put everything else there, the index before the shards: the repository is partial until its last shard is there."""
    files = sorted(path for path in model_dir.iterdir() if path.is_file() and not path.name.startswith("."))
    for path in sorted(files, key=lambda path: (path.suffix == ".safetensors", path.name)):
        _put(path, hub_dir / repo_id)


def _put(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{path.name}.incomplete"
    shutil.copyfile(path, hidden)
    hidden.rename(folder / path.name)
