"""Checkpoints made from others: another format of the weights, or shards joined again."""

from pathlib import Path

from dayzero.app.local import local_work
from dayzero.domain.conversion import ConversionPlan, WeightFormat
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import DependencyError
from dayzero.ports.hub import Progress
from dayzero.settings import Settings
from dayzero.steps import unpickling, weights


def convert(settings: Settings, model: str, target: WeightFormat, out: Path, progress: Progress | None) -> ConversionPlan:
    """Bring the model onto this disk where it is not, and write it in the format to `out` (see convert_checkpoint)."""
    try:
        from dayzero.adapters.conversion.converting import convert_checkpoint
    except ImportError as error:
        raise _lacking(error) from error
    work = local_work(settings, model, "cpu")
    weights.fetch_step(work.bench, work.lease)
    model_dir = weights.on_disk(work.bench, work.release, Degrees()).model_dir
    return convert_checkpoint(model_dir, target, out, progress)


def unpickle(settings: Settings, model: str, out: Path) -> tuple[TensorHeader, ...]:
    """The weights of a release that publishes pickles alone, as safetensors in `out`, with what lies beside them.

    They are read by an isolated child, and only of a repository that DAYZERO_ALLOW_PICKLE names (else BlockedError).
    """
    try:
        from dayzero.adapters.conversion.beside import copy_beside
        from dayzero.adapters.conversion.folder import whole_folder
        from dayzero.adapters.conversion.sealing import seal
    except ImportError as error:
        raise _lacking(error) from error
    work = local_work(settings, model, "cpu")
    model_dir = unpickling.pickles_on_disk(work.bench, work.release)
    with whole_folder(out, work.release.weight_bytes()) as partial:
        done = unpickling.unpickle(work.bench, work.release, model_dir, partial)
        tensors = seal(partial, done.files)
        copy_beside(model_dir, partial)
    return tensors


def export(
    shards: Path, out: Path, beside: Path | None, *, check_digests: bool, progress: Progress | None
) -> tuple[TensorHeader, ...]:
    """The tensors of a folder of shards, whole, in a plain folder (see export_shards)."""
    try:
        from dayzero.adapters.conversion.exporting import export_shards
    except ImportError as error:
        raise _lacking(error) from error
    return export_shards(shards, out, beside, check_digests=check_digests, progress=progress)


def _lacking(error: ImportError) -> DependencyError:
    return DependencyError(f"this command needs {error.name}.", remedy="Install the extra: pip install 'dayzero[worker]'.")
