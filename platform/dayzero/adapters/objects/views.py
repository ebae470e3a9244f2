"""A release's files by their own names, without a second copy: links to the objects."""

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

from dayzero.disk import refusal, refusals_spoken
from dayzero.domain.release import RepoFile
from dayzero.names import inside

QUARANTINE = ".quarantine"
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


def show(place: Path, file: RepoFile, into: Path, whose: str) -> Path:
    """The file under `into`, as another name of the object (a link where the disk is another); whole or not at all.

    What lies there under that name and is another file is kept beside it under a quarantine name. BadInputError: the name
    leads out of the folder.
    """
    target = inside(into, file.path, whose)
    with refusals_spoken(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and target.samefile(place):
            return target
        if target.is_file() and not target.is_symlink():
            target.replace(target.with_name(f"{target.name}.replaced{QUARANTINE}"))
    fresh = target.with_name(f".{target.name[:100]}.{os.getpid()}-{threading.get_ident()}.tmp")
    fresh.unlink(missing_ok=True)
    try:
        _link(place, fresh)
        fresh.replace(target)
    except OSError as error:
        raise refusal(target, error) from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    return target


def _link(place: Path, fresh: Path) -> None:
    try:
        fresh.hardlink_to(place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        fresh.symlink_to(place)
