"""Checkpoints made from others: another format of the weights, or shards joined again."""

from pathlib import Path

from dayzero.adapters.conversion.beside import copy_beside
from dayzero.adapters.conversion.folder import whole_folder
from dayzero.adapters.transfer.beside import small_of_shards
from dayzero.adapters.transfer.exporting import export_files, joined_files
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.app.local import local_work
from dayzero.disk import write_whole
from dayzero.domain.conversion import ConversionPlan, WeightFormat
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import DependencyError
from dayzero.ports.hub import Progress
from dayzero.settings import Settings
from dayzero.steps import unpickling
from dayzero.steps.shards import fetch_step, on_disk


def convert(settings: Settings, model: str, target: WeightFormat, out: Path, progress: Progress | None) -> ConversionPlan:
    """Bring the model onto this disk where it is not, and write it in the format to `out` (see convert_checkpoint)."""
    try:
        from dayzero.adapters.conversion.converting import convert_checkpoint
    except ImportError as error:
        raise _lacking(error) from error
    work = local_work(settings, model, "cpu")
    fetch_step(work.bench, work.lease)
    model_dir = on_disk(work.bench, work.release, Degrees()).model_dir
    return convert_checkpoint(model_dir, target, out, progress)


def unpickle(settings: Settings, model: str, out: Path) -> tuple[TensorHeader, ...]:
    """The weights of a release that publishes pickles alone, as safetensors in `out`, with what lies beside them.

    They are read by an isolated child, and only of a repository that DAYZERO_ALLOW_PICKLE names (else BlockedError).
    """
    work = local_work(settings, model, "cpu")
    return unpickling.convert_pickles(work.bench, work.release, out).index.tensors


def export(
    shards: Path, out: Path, beside: Path | None, *, integrity: Integrity, progress: Progress | None
) -> tuple[TensorHeader, ...]:
    """The tensors of a folder of shards in the files that they came from, in a new folder `out`, which is there whole or not at
    all. The small files beside the shards go with them, or in place of these the ones of the folder `beside`.

    The shards are checked first (`integrity` none: not their digests). Errors: see verify_shards and export_files.
    """
    manifest = verify_shards(shards, integrity=integrity)
    files = joined_files(manifest)
    with whole_folder(out, sum(one.size_bytes for tensors in files.values() for one in tensors)) as partial:
        tensors = export_files(shards, files, partial, progress)
        if beside is not None:
            copy_beside(beside, partial)
        else:
            for name, content in small_of_shards(shards, manifest.beside):
                write_whole(partial / name, content)
    return tensors


def _lacking(error: ImportError) -> DependencyError:
    return DependencyError(f"this command needs {error.name}.", remedy="Install the extra: pip install 'dayzero[worker]'.")
