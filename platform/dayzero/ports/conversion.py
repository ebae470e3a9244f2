"""What keeps checkpoints that were made here from pickles."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dayzero.domain.conversion import Converted, Unpickled


class Conversions(Protocol):
    """Folders of safetensors that an untrusted process wrote, each there whole or not at all."""

    def kept(self, folder: Path) -> Converted | None:
        """What an earlier conversion left in a folder; None when none ended there."""
        ...

    def sealed(
        self, model_dir: Path, into: Path, needed_bytes: int, read: Callable[[Path], Unpickled], names: frozenset[str]
    ) -> Converted:
        """A new folder with the files that `read` writes into the folder that it is given, checked and hashed, and with what
        lies beside the weights in `model_dir`.

        BadInputError: something else was written, a tensor of `names` is missing, or `into` is there already. DependencyError:
        no room.
        """
        ...
