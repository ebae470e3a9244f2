"""What is installed here, by the packages' own metadata: nothing is imported."""

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
