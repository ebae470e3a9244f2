"""What the modelling library's own caches allocate, beside what is predicted, family by family: docs/state-measured.md.

`python tests/state_measured.py` measures and writes the table; a test measures again and compares.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny_families
from dayzero.domain.architecture import Mixer, ModelSpec
from dayzero.stages.memory.library import library_excess
from dayzero.stages.memory.state import CacheShape, sequence_bytes
from dayzero.stages.structure.reading import read_spec

TABLE = Path(__file__).parents[1] / "docs" / "state-measured.md"
LENGTHS = (15, 31, 47)
"""Tokens of the measured sequences: inside every window, and beyond; one short of whole compressed entries, when most waits."""
ELEMENT_BYTES = {"bfloat16": 2, "float32": 4}

CHILD = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
transformers.logging.set_verbosity_error()
torch.manual_seed(0)

def tensors(thing, seen):
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from tensors(value, seen)
    elif isinstance(thing, (list, tuple)):
        for value in thing:
            yield from tensors(value, seen)
    elif type(thing).__module__.startswith("transformers") and "Config" not in type(thing).__name__:
        yield from tensors(vars(thing), seen)

def cache_of(out):
    names = ("cache", "past_key_values", "cache_params")
    return next(({name: getattr(out, name)} for name in names if getattr(out, name, None) is not None), {})

asked = json.loads(sys.stdin.read())
for name, arguments in asked["families"].items():
    for dtype in asked["dtypes"]:
        config = CONFIG_MAPPING[name](**arguments, dtype=dtype)
        auto = AutoModelForCausalLM if type(config) in AutoModelForCausalLM._model_mapping else AutoModel
        model = auto.from_config(config, dtype=getattr(torch, dtype)).eval()
        row = {"name": name, "dtype": dtype, "config": {**config.to_dict(), "model_type": name}, "bytes": {}}
        for length in asked["lengths"]:
            ids = torch.randint(3, 100, (1, length))
            with torch.no_grad():
                # The whole prompt but one token, then two single ones: buffers between entries are real copies by then.
                out = model(ids[:, :-2], use_cache=True)
                out = model(ids[:, -2:-1], use_cache=True, **cache_of(out))
                out = model(ids[:, -1:], use_cache=True, **cache_of(out))
            kept = cache_of(out)
            found = [tensor for tensor in tensors(kept, set()) if tensor.is_floating_point()]
            storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in found if t.numel()}
            row["bytes"][length] = sum(storages.values())
            row["cache"] = type(next(iter(kept.values()))).__name__
        print(json.dumps(row, default=str), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One family in one dtype: allocated and needed bytes by length, and what is allocated beyond by name."""

    family: str
    dtype: str
    cache: str
    spec: ModelSpec
    allocated: dict[int, int]
    needed: dict[int, int]
    beyond: dict[str, dict[int, int]]

    @property
    def unexplained(self) -> dict[int, int]:
        """Bytes by length that neither the need nor a named excess explains."""
        return {
            length: got - self.needed[length] - sum(sizes[length] for sizes in self.beyond.values())
            for length, got in self.allocated.items()
        }


def measure(names: list[str], dtypes: tuple[str, ...] = ("bfloat16",)) -> list[Row]:
    """Every named family, built and run by the library in a process of its own."""
    asked = {"families": {name: tiny_families.FAMILIES[name] for name in names}, "dtypes": dtypes, "lengths": LENGTHS}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(asked), capture_output=True, text=True, timeout=570, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [_row(json.loads(line)) for line in done.stdout.splitlines()]


def _row(found: dict[str, Any]) -> Row:
    spec = read_spec(json.dumps(found["config"]).encode(), None)
    element_bytes = ELEMENT_BYTES[found["dtype"]]
    needed = {}
    for length in LENGTHS:
        shape = CacheShape(length, 1, 1, 1, element_bytes)
        needed[length] = sum(sequence_bytes(layer, shape) for layer in spec.layers)
    beyond: dict[str, dict[int, int]] = {}
    for mixer in (mixer for layer in spec.layers for mixer in layer.mixers):
        for length in LENGTHS:
            for name, size in library_excess(mixer, length, 1, element_bytes).items():
                sizes = beyond.setdefault(name, dict.fromkeys(LENGTHS, 0))
                sizes[length] += size
    allocated = {int(length): size for length, size in found["bytes"].items()}
    return Row(found["name"], found["dtype"], found["cache"], spec, allocated, needed, beyond)


def kinds_of(spec: ModelSpec) -> str:
    """The kinds of mixers of a structure, in order of appearance."""
    mixers: list[Mixer] = [mixer for layer in spec.layers for mixer in layer.mixers]
    return ", ".join(dict.fromkeys(mixer.kind for mixer in mixers))


def table(rows: list[Row]) -> str:
    """The table as it stands in the docs."""
    lines = [
        "# Caches as the modelling library allocates them",
        "",
        "Tiny models of every family that transformers 5.24 builds, in bfloat16, run on one sequence of "
        f"{', '.join(map(str, LENGTHS))} tokens: bytes of storage behind its own cache (after two single tokens, for right "
        "after the prompt windows are views of the whole prompt), and bytes that are predicted.",
        "What is allocated beyond the need is named. Generated by `python tests/state_measured.py`; the test "
        "`tests/integration/test_state_against_library.py` measures again, in float32 too.",
        "",
        "| family | mixers | cache | allocated | predicted | beyond the need | unexplained |",
        "|---|---|---|--:|--:|---|--:|",
    ]
    for row in rows:
        beyond = "; ".join(f"{name}: {_numbers(sizes)}" for name, sizes in row.beyond.items()) or "nothing"
        cells = [row.family, kinds_of(row.spec), row.cache, _numbers(row.allocated), _numbers(row.needed), beyond,
                 _numbers(row.unexplained) if any(row.unexplained.values()) else "0"]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Not measured:", ""]
    lines += [f"- {name}: {why}." for name, why in tiny_families.NOT_BUILT.items()]
    return "\n".join(lines) + "\n"


def _numbers(by_length: dict[int, int]) -> str:
    sizes = dict.fromkeys(by_length.values())
    return " / ".join(f"{size:,}" for size in (by_length.values() if len(sizes) > 1 else sizes))


if __name__ == "__main__":
    TABLE.write_text(table(measure(sorted(tiny_families.FAMILIES))))
