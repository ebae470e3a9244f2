"""The process that runs operators: `python -m … FD DEVICE DTYPES NAMES [DEVICE.json]` writes a JSON line each there.

DEVICE.json is a domain Device: one that a plugin makes known to torch.

Whatever an operator does to this process, the parent knows which one it was: answers come in the order of the names.
"""

import os
import sys
import warnings
from pathlib import Path

from dayzero import codec
from dayzero.domain.platforms import Device
from dayzero.registry import device_plugin


def main() -> None:
    """Probe the operators of the file, one after the other."""
    descriptor, device, dtypes, names = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), Path(sys.argv[4])
    warnings.simplefilter("ignore")
    import torch

    from dayzero.adapters.operators.running import Prober

    if len(sys.argv) > 5:
        told = codec.load(Device, Path(sys.argv[5]).read_bytes())
        device_plugin(told.torch_device).install(told)
    torch.empty(1, device=device)  # where the device is not here, this ends the process before it is ready
    prober = Prober(device, dtypes)
    with os.fdopen(descriptor, "wb", buffering=0) as answers:
        answers.write(b"\n")  # ready: torch is imported, and the first operator's time begins
        for name in names.read_text(encoding="utf-8").splitlines():
            answers.write(codec.dump(tuple(prober.probe(name))) + b"\n")


if __name__ == "__main__":
    main()
