"""Figures of long proofs: in docs/proofs, each series with the machine that it is of beside those of earlier runs."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "proofs"


def write_series(name: str, schema: str, series: str, figures: dict[str, Any], folder: Path = FOLDER) -> None:
    """Put the figures of one series in place of its earlier ones; the others stay."""
    proof = folder / name
    try:
        known = json.loads(proof.read_text())["series"]
    except FileNotFoundError:
        known = {}
    machine = {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "machine": platform.machine(),
    }
    known[series] = {**machine, **figures}
    folder.mkdir(parents=True, exist_ok=True)
    proof.write_text(json.dumps({"schema": schema, "series": known}, indent=2) + "\n")
