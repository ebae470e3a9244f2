"""The probe's process: `python -m dayzero.adapters.operators.child OUT.json [DEVICE [PLATFORM [DEVICE.json]]]`.

It writes the manifest. DEVICE.json is a domain Device: one that a plugin makes known to torch, and that is asked itself.
"""

import sys
from pathlib import Path

from dayzero import codec
from dayzero.domain.platforms import Device


def main() -> None:
    """Probe and write; the exit status is 4 with one sentence when torch is not installed."""
    arguments = [*sys.argv[2:], "cpu"][:2] if len(sys.argv) < 4 else sys.argv[2:4]
    device, platform = (arguments[0], arguments[0]) if len(sys.argv) < 4 else (arguments[0], arguments[1])
    try:
        from dayzero.adapters.operators.probing import torch_manifest
    except ImportError as error:
        sys.exit(_missing(error))
    if len(sys.argv) > 4:
        from dayzero.adapters.operators.told import told_manifest

        manifest = told_manifest(codec.load(Device, Path(sys.argv[4]).read_bytes()), platform)
    else:
        manifest = torch_manifest(device, platform)
    Path(sys.argv[1]).write_bytes(codec.dump(manifest))


def _missing(error: ImportError) -> int:
    print(f"probing operators needs what is not installed: {error}", file=sys.stderr)
    return 4


if __name__ == "__main__":
    main()
