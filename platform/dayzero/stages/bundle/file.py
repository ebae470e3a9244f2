"""A file of a bundle."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a bundle: relative POSIX path, its text, and whether it can be executed."""

    path: str
    text: str
    executable: bool = False
