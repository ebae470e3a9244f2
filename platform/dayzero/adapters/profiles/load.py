"""Loads platform profiles: the shipped ones, and a user's own on top of them."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from dayzero.adapters.profiles.parse import Table, profile_from
from dayzero.domain.platforms import PlatformProfile
from dayzero.errors import BadInputError, NotFoundError

_NOT_PROFILES = frozenset({"taxonomy.toml"})
_LARGEST_BYTES = 1 << 20


def load_profiles(extra_dir: Path | None) -> Mapping[str, PlatformProfile]:
    """Every profile by slug: the shipped ones, then those in `extra_dir`.

    A user's file whose slug is shipped replaces the fields that it states (tables are merged key by key); a file with
    `base = "cpu"` takes that profile's fields first. BadInputError names the file and the field that is wrong.
    """
    tables = {table["slug"]: (name, table) for name, table in _shipped()}
    for path in _user_files(extra_dir):
        table = _table(path, path.name)
        slug = _slug(table, path.name)
        under = _base(table, slug, path.name, {known: known_table for known, (_, known_table) in tables.items()})
        tables[slug] = (path.name, _merged(under, table) | {"slug": slug})
    return {str(slug): profile_from(table, name) for slug, (name, table) in sorted(tables.items())}


def choose_profile(profiles: Mapping[str, PlatformProfile], name: str) -> PlatformProfile:
    """The profile of that slug.

    A name that stands for several parts is refused with the list of them (BadInputError), an unknown one with the list of those
    known (NotFoundError).
    """
    profile = profiles.get(name)
    if profile is not None:
        return profile
    parts = sorted(slug for slug in profiles if name and slug.startswith(name + "-"))
    if parts:
        raise BadInputError(
            f"platform {name} stands for several parts, and figures differ between them.",
            remedy=f"Name one: {', '.join(parts)}.",
        )
    raise NotFoundError(
        f"there is no platform {name!r}.",
        remedy=f"Known: {', '.join(sorted(profiles))}. Add your own as a TOML file in DAYZERO_PLATFORMS_DIR.",
    )


def _shipped() -> list[tuple[str, Table]]:
    found = []
    for item in sorted(files("dayzero.platforms").iterdir(), key=lambda item: item.name):
        if item.name.endswith(".toml") and item.name not in _NOT_PROFILES:
            found.append((item.name, _parsed(item.read_text(encoding="utf-8"), item.name)))
    return found


def _user_files(extra_dir: Path | None) -> list[Path]:
    if extra_dir is None:
        return []
    if not extra_dir.is_dir():
        raise BadInputError(
            f"the folder of platform profiles {extra_dir} does not exist.", remedy="Correct DAYZERO_PLATFORMS_DIR."
        )
    return sorted(extra_dir.glob("*.toml"))


def _table(path: Path, name: str) -> Table:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise BadInputError(f"platform profile {name} is larger than {_LARGEST_BYTES} bytes.")
        return _parsed(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"platform profile {name} cannot be read: {error}.") from error


def _parsed(text: str, name: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"platform profile {name} is not TOML: {error}.") from error


def _slug(table: Table, name: str) -> str:
    slug = table.get("slug")
    if not isinstance(slug, str) or not slug.replace("-", "").isalnum() or slug != slug.lower():
        raise BadInputError(f"platform profile {name}: slug must be lower-case letters, digits and dashes, not {slug!r}.")
    return slug


def _base(table: Table, slug: str, name: str, known: Mapping[object, Table]) -> Table:
    base = table.pop("base", slug if slug in known else None)
    if base is None:
        return {}
    if not isinstance(base, str) or base not in known:
        raise BadInputError(
            f"platform profile {name}: base {base!r} is no platform known before this file.",
            remedy=f"Known: {', '.join(sorted(map(str, known)))} (your own files are read in order of name).",
        )
    return known[base]


def _merged(under: Table, over: Table) -> Table:
    """`over` on `under`: tables key by key, but a figure (a table with a value) as a whole."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict) and "value" not in value:
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged
