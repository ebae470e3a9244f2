"""Loads platform profiles: the shipped ones, and a user's own on top of them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from dayzero.adapters.profiles.parse import Table, profile_from
from dayzero.adapters.profiles.tables import parsed_table, read_table
from dayzero.domain.platforms import PlatformProfile
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.platforms.template import platform_template

_NOT_PROFILES = frozenset({"taxonomy.toml"})
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,31}")


def load_profiles(extra_dir: Path | None) -> Mapping[str, PlatformProfile]:
    """Every profile by slug: the shipped ones, then those in `extra_dir`.

    A user's file whose slug is shipped replaces the fields that it states (tables are merged key by key); a file with
    `base = "cpu"` takes that profile's fields first. BadInputError names the file and the field that is wrong.
    """
    tables = _all_tables(extra_dir, None)
    return {slug: profile_from(table, name) for slug, (name, table) in sorted(tables.items())}


def read_profile(path: Path, extra_dir: Path | None) -> PlatformProfile:
    """One file's profile, on its base, before the file is put anywhere; BadInputError as for `load_profiles`."""
    tables = _all_tables(extra_dir, path)
    name, table = _with(path, tables)
    return profile_from(table, name)


def _all_tables(extra_dir: Path | None, but: Path | None) -> dict[str, tuple[str, Table]]:
    """Every profile's file name and table by slug, the user's on top; the file `but` is left out."""
    tables = {str(table["slug"]): (name, table) for name, table in _shipped()}
    for path in _user_files(extra_dir):
        if but is None or path.resolve() != but.resolve():
            name, table = _with(path, tables)
            tables[str(table["slug"])] = (name, table)
    return tables


def _with(path: Path, known: Mapping[str, tuple[str, Table]]) -> tuple[str, Table]:
    table = read_table(path, f"platform profile {path.name}")
    slug = _slug(table, path.name)
    under = _base(table, slug, path.name, {name: known_table for name, (_, known_table) in known.items()})
    return path.name, _merged(under, table) | {"slug": slug}


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
        remedy=f"Known: {', '.join(sorted(profiles))}. Make your own: dayzero platform new {name or 'SLUG'}",
    )


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[str, Table], ...]:
    """The shipped files, parsed once a process: they do not change under it, and nobody writes into their tables."""
    found = []
    for item in sorted(files("dayzero.platforms").iterdir(), key=lambda item: item.name):
        if item.name.endswith(".toml") and item.name not in _NOT_PROFILES:
            found.append((item.name, parsed_table(item.read_text(encoding="utf-8"), f"platform profile {item.name}")))
    return tuple(found)


def _user_files(extra_dir: Path | None) -> list[Path]:
    if extra_dir is None:
        return []
    if not extra_dir.is_dir():
        raise BadInputError(
            f"the folder of platform profiles {extra_dir} does not exist.", remedy="Correct DAYZERO_PLATFORMS_DIR."
        )
    return sorted(extra_dir.glob("*.toml"))


def _slug(table: Table, name: str) -> str:
    slug = table.get("slug")
    if not isinstance(slug, str) or not _SLUG.fullmatch(slug):
        raise BadInputError(f"platform profile {name}: slug must be lower-case letters, digits and dashes, not {slug!r}.")
    return slug


def new_profile(slug: str, torch_device: str, out: Path) -> None:
    """Write the template for a platform of one's own; BadInputError for a bad slug and for a file that is there already."""
    _slug({"slug": slug}, out.name)
    if not _DEVICE.fullmatch(torch_device):
        raise BadInputError(
            f"torch device {torch_device!r} is none.", remedy="Name a type: cpu, cuda, npu, hpu, xpu, musa, mlu …"
        )
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(platform_template(slug, torch_device))
    except FileExistsError as error:
        raise BadInputError(f"{out} is there already.", remedy="Give another --out, or edit that file.") from error
    except OSError as error:
        raise BadInputError(f"{out} cannot be written: {error.strerror}.", remedy="Give another --out.") from error


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
