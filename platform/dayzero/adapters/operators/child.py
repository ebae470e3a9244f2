"""The probe's process: `python -m dayzero.adapters.operators.child OUT.json [DEVICE [PLATFORM]]` writes the manifest."""

import sys
from pathlib import Path

from dayzero import codec


def main() -> None:
    """Probe and write; the exit status is 4 with one sentence when torch is not installed."""
    arguments = [*sys.argv[2:], "cpu"][:2] if len(sys.argv) < 4 else sys.argv[2:4]
    device, platform = (arguments[0], arguments[0]) if len(sys.argv) < 4 else (arguments[0], arguments[1])
    try:
        from dayzero.adapters.operators.probing import torch_manifest
    except ImportError as error:
        sys.exit(_missing(error))
    Path(sys.argv[1]).write_bytes(codec.dump(torch_manifest(device, platform)))


def _missing(error: ImportError) -> int:
    print(f"probing operators needs what is not installed: {error}", file=sys.stderr)
    return 4


if __name__ == "__main__":
    main()
