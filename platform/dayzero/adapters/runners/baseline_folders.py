"""The documents of recorded baselines on this host's disk; no tensor library is needed to list them."""

from pathlib import Path

from dayzero.codec import load
from dayzero.domain.baselines import Baseline
from dayzero.errors import BadInputError

DOCUMENT = "baseline.json"


def read_baseline(folder: Path) -> Baseline:
    """The document of a baseline, whose folder has its name. BadInputError: it is none, or another's."""
    try:
        found = load(Baseline, (folder / DOCUMENT).read_bytes())
    except OSError as error:
        raise BadInputError(f"{folder} holds no baseline: {error.strerror}.", remedy="Remove it and record it anew.") from error
    if found.of.name != folder.name:
        raise BadInputError(f"{folder} holds the baseline {found.of.name}.", remedy="Remove it and record it anew.")
    return found


def list_baselines(at: Path) -> tuple[Baseline, ...]:
    """Every whole baseline in the folder, the newest first; none where there is no folder."""
    if not at.is_dir():
        return ()
    found = [read_baseline(one) for one in at.iterdir() if (one / DOCUMENT).is_file()]
    return tuple(sorted(found, key=lambda one: one.recorded_at, reverse=True))
