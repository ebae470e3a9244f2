"""Shards for another plan, made from those that are there."""

from pathlib import Path

from dayzero.adapters.transfer.resharding import reshard as write_reshaped
from dayzero.adapters.transfer.verifying import completed_manifest
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.errors import BadInputError
from dayzero.ports.hub import Progress
from dayzero.stages.configuration.quantization import SIDE_FILE
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.layout.replanning import index_of_shards
from dayzero.stages.structure.reading import read_spec

_CONFIG = "config.json"


def reshard(
    shards: Path,
    config: Path | None,
    degrees: Degrees,
    out: Path,
    progress: Progress | None,
    *,
    redundant_experts: int = 0,
    integrity: Integrity = Integrity.SHA256,
) -> ShardManifest:
    """The shards of `shards` as those of other degrees under `out`; `config` is the model's configuration or its folder, where
    it is another than the one beside the shards.

    BadInputError: no shards or configuration there, or degrees that the structure does not allow. More: see the adapter.
    """
    manifest = completed_manifest(shards)
    index = index_of_shards(manifest)
    told = _configuration(config or shards)
    spec = read_spec(told[_CONFIG], index, side=told.get(SIDE_FILE))
    layout = lay_out(manifest.content_id, spec, index, degrees, redundant_experts)
    return write_reshaped(shards, layout, out, progress, config=told if config is not None else None, integrity=integrity)


def _configuration(place: Path) -> dict[str, bytes]:
    """A model's configuration, and its quantization side file where it has one, from a folder or beside a file."""
    path = place / _CONFIG if place.is_dir() else place
    side = path.with_name(SIDE_FILE)
    return {_CONFIG: _read(path), **({SIDE_FILE: _read(side)} if side.is_file() else {})}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read: {error.strerror}.", remedy="Name the model's config.json, or its folder, with --config."
        ) from error
