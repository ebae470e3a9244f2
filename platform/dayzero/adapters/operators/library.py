"""A platform's operator library, probed in a process of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dayzero import codec
from dayzero.domain.operators import Decomposition, OperatorManifest
from dayzero.domain.platforms import Device
from dayzero.errors import DependencyError, ExitCode, MeasurementError

_INSTALL = "Install the worker extra: pip install 'dayzero[worker]'"
_LOG_TAIL_CHARACTERS = 2000


class SubprocessLibrary:
    """The manifest that the torch of `python` declares for a device; probed once and kept.

    `told`: a device that a plugin brings (registry, dayzero.devices); it is installed and asked itself.
    """

    def __init__(
        self,
        python: str = sys.executable,
        *,
        device: str = "cpu",
        platform: str | None = None,
        timeout_s: float = 300.0,
        told: Device | None = None,
    ) -> None:
        self._command = [python, "-P", "-m", "dayzero.adapters.operators.child"]
        self._device = device
        self._platform = platform or device
        self._timeout_s = timeout_s
        self._told = told
        self._kept: OperatorManifest | None = None

    def manifest(self) -> OperatorManifest:
        """As the port says. DependencyError: torch is missing. MeasurementError: the probe failed."""
        if self._kept is None:
            self._kept = self._probe()
        return self._kept

    def decompositions(self) -> Sequence[Decomposition]:
        """The manifest's decompositions."""
        return self.manifest().decompositions

    def _probe(self) -> OperatorManifest:
        with tempfile.TemporaryDirectory(prefix="dayzero-operators-") as folder:
            out = Path(folder) / "manifest.json"
            command = [*self._command, str(out), self._device, self._platform]
            if self._told is not None:
                device = Path(folder) / "device.json"
                device.write_bytes(codec.dump(self._told))
                command.append(str(device))
            try:
                run = subprocess.run(
                    command, env=child_environment(folder), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=self._timeout_s, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise MeasurementError(
                    f"probing the operators of {self._platform} took longer than {self._timeout_s:g} s and was stopped."
                ) from error
            except OSError as error:
                raise DependencyError(f"cannot start {command[0]}: {error}.", remedy=_INSTALL) from error
            tail = run.stderr.decode("utf-8", "replace")[-_LOG_TAIL_CHARACTERS:].strip()
            if run.returncode == ExitCode.DEPENDENCY:
                raise DependencyError(f"{tail}.", remedy=_INSTALL)
            if run.returncode != 0 or not out.is_file():
                raise MeasurementError(f"probing the operators of {self._platform} failed (exit {run.returncode}): {tail}")
            return codec.load(OperatorManifest, out.read_bytes())


def child_environment(home: str) -> dict[str, str]:
    """The child's whole environment: no secrets."""
    kept = {
        name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG", "COVERAGE_PROCESS_CONFIG") if name in os.environ
    }
    root = str(Path(__file__).resolve().parents[3])
    return kept | {"HOME": home, "TMPDIR": home, "OMP_NUM_THREADS": "1", "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
