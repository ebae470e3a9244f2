"""Holds branch coverage of all suites together to the floors of the house."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FLOORS_PERCENT = {
    "platform/dayzero/domain/": 85.0,
    "platform/dayzero/stages/": 85.0,
    "platform/dayzero/adapters/": 75.0,
    "flows/": 75.0,
}


def covered_percent(files: dict[str, dict[str, dict[str, int]]], prefix: str) -> float:
    """Statements and branches covered below a folder, in percent."""
    done = total = 0
    for path, data in files.items():
        if path.startswith(prefix):
            summary = data["summary"]
            done += summary["covered_lines"] + summary["covered_branches"]
            total += summary["num_statements"] + summary["num_branches"]
    return 100.0 * done / total if total else 0.0


def main() -> int:
    """Combine, report, and return 1 when a floor is missed."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "--append", "--quiet"], check=False)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        subprocess.run([*coverage, "json", "--quiet", "-o", str(report)], check=True)
        files = json.loads(report.read_text())["files"]
    missed = False
    for prefix, floor in FLOORS_PERCENT.items():
        percent = covered_percent(files, prefix)
        missed |= percent < floor
        print(f"{prefix:32} {percent:5.1f} %  (floor {floor:.0f} %)")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
