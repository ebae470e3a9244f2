"""What lies beside the weights of a checkpoint, copied."""

import shutil
from pathlib import Path

from dayzero.domain.release import FileRole
from dayzero.stages.configuration.quantization import SIDE_FILE
from dayzero.stages.watching.roles import role_of


def copy_beside(model_dir: Path, into: Path, *, quantization: bool = True) -> None:
    """Configuration, tokenizer, code and texts of a checkpoint, where they are not there yet; nothing that holds or indexes
    tensors. `quantization` False leaves out the side file that describes a quantization."""
    for path in sorted(model_dir.iterdir()):
        holds = role_of(path.name) in (FileRole.WEIGHTS, FileRole.WEIGHTS_INDEX)
        if holds or (path.name == SIDE_FILE and not quantization) or path.name.startswith("."):
            continue
        if path.is_file() and not (into / path.name).exists():
            shutil.copyfile(path, into / path.name)
