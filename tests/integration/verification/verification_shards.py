"""Shards of a model folder, by the product's own layout and transfer."""

from pathlib import Path

from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.stages.headers.reading import header_length, index_of, parse_header
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.structure.reading import read_spec


def shard_model(model: Path, into: Path, degrees: Degrees, redundant_experts: int = 0) -> ShardManifest:
    """Write the model's shards for the degrees under `into`."""
    headers = {}
    for path in sorted(model.glob("*.safetensors")):
        data, size = path.read_bytes(), path.stat().st_size
        headers[path.name] = parse_header(path.name, size, data[8 : header_length(data[:8], path.name, size) + 8])
    index = index_of(headers, None)
    spec = read_spec((model / "config.json").read_bytes(), index)
    return WeightTransfer().shard(model, lay_out("test", spec, index, degrees, redundant_experts), into, None)
