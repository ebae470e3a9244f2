"""The real command line, as an operator runs it, in folders of the test's own."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one sentence on stderr; anything else there fails the test."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("Error: "), lines[0]
        assert "Traceback" not in self.err + self.out
        return lines[0].removeprefix("Error: ")


@dataclass(frozen=True)
class Door:
    """Commands with one data folder and few settings; nothing of the caller's DAYZERO_, HF_ or PREFECT_ variables."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str | Path, timeout_s: float = 280, **settings: str) -> Said:
        kept = {name: value for name, value in os.environ.items() if not re.match("DAYZERO_|HF_|PREFECT_|TRANSFORMERS_", name)}
        ours = {"DATA_DIR": str(self.home / "data"), "HUB_TIMEOUT_S": "3", "HUB_RETRIES": "0", "COMPILE_TARGET": "false"}
        named = {f"DAYZERO_{name}": value for name, value in (ours | self.settings | settings).items()}
        self.home.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "dayzero.cli.main", *map(str, arguments)],
            env={**kept, "OMP_NUM_THREADS": "2", **named},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)
