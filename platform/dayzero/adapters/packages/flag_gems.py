"""flag-gems' wheel: Triton kernels registered for ATen operators, what each vendor specialises, and what it found broken."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dayzero.adapters.packages.archive import Archive
from dayzero.adapters.packages.foreign import assigned, python_tree, text_of, texts, yaml_table
from dayzero.domain.packages import PackageTables, RowKind, TableRow
from dayzero.errors import BadInputError

LIBRARY = "flag-gems"
_ROOT = "flag_gems/__init__.py"
_BACKENDS = "flag_gems/runtime/backend/_"
_UNKNOWN = (
    "an operator that is registered and not in the vendor's list of failures was not necessarily tested there",
    "the kernels need the vendor's own build of Triton",
)
_NEVER_LEFT_OUT = "nvidia"
"""The package's registrar ignores CUSTOMIZED_UNUSED_OPS for this vendor (runtime/register.py)."""

_DTYPES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT16": "int16",
           "INT32": "int32", "INT64": "int64", "BOOL": "bool"}  # fmt: skip
_PARTIAL = re.compile(r"^Partial dtypes failed\s*\(([A-Z0-9/ ,]+)\)$")


def reads(archive: Archive) -> bool:
    """Whether the wheel is flag-gems."""
    return _ROOT in archive.names


def tables_of(archive: Archive, version: str, source: str, vendor: str | None) -> PackageTables:
    """Registrations and fused functions for one vendor; BadInputError lists the vendors that it has."""
    vendors = sorted({name[len(_BACKENDS) :].partition("/")[0] for name in archive.names if name.startswith(_BACKENDS)})
    if vendor not in vendors:
        raise BadInputError(
            f"{LIBRARY} {version} has nothing for vendor {vendor or 'unknown'} (it has {', '.join(vendors)}).",
            remedy="State `vendor` in the platform's profile, by one of those names.",
        )
    special = _exported(archive, f"{_BACKENDS}{vendor}/ops/__init__.py")
    registered = list(_registered(archive, special, vendor))
    behind = frozenset(function for _, function in registered)
    rows = [*registered, *(pair for pair in _functions(archive, special, vendor) if pair[1] not in behind)]
    failures = dict(_failures(archive, vendor))
    left_out = _left_out(archive, vendor)
    kept: dict[str, TableRow] = {}
    excluded: dict[str, str] = {}
    for row, function in rows:
        names = {row.name, function, row.name.partition(".")[0]}
        why = next((failures[name] for name in sorted(names) if name in failures), None)
        partial = _PARTIAL.match(why or "")
        if partial:
            refused = {_DTYPES[word]: str(why) for word in re.split(r"[/ ,]+", partial[1]) if word in _DTYPES}
            row, why = replace(row, refused=refused, notes=(*row.notes, str(why))), None
        if why is None and function in left_out:
            why = f"{LIBRARY} leaves it out on {vendor}"
        kept.setdefault(row.name, row)
        if why is not None:
            excluded[row.name] = why
    known = {name for row, function in rows for name in (row.name, function, row.name.partition(".")[0])}
    for name in sorted(set(failures) - known):
        kept[name] = TableRow(name, RowKind.CUSTOM)
        excluded[name] = failures[name]
    return PackageTables(LIBRARY, version, source, tuple(kept.values()), excluded, unknown=_UNKNOWN)


def _registered(archive: Archive, special: frozenset[str], vendor: str) -> Iterator[tuple[TableRow, str]]:
    config = assigned(python_tree(archive.text(_ROOT), _ROOT), "_FULL_CONFIG")
    if not isinstance(config, ast.Tuple | ast.List) or not config.elts:
        raise BadInputError(f"{_ROOT} has no _FULL_CONFIG of registrations.", remedy="This release keeps them elsewhere.")
    for item in config.elts:
        parts = item.elts if isinstance(item, ast.Tuple | ast.List) else []
        name = text_of(parts[0]) if parts else None
        if name is None or len(parts) < 2 or not isinstance(parts[1], ast.Name):
            continue
        notes = ("registered with some versions of torch only",) if len(parts) > 2 else ()
        function = parts[1].id
        yield TableRow(name, RowKind.ATEN, notes=(*notes, *_specialised(function, special, vendor))), function


def _functions(archive: Archive, special: frozenset[str], vendor: str) -> Iterator[tuple[TableRow, str]]:
    """Functions that are called by their own name: the fused ones, and the library's."""
    for name in sorted(_exported(archive, "flag_gems/fused/__init__.py") | _exported(archive, "flag_gems/ops/__init__.py")):
        yield TableRow(name, RowKind.CUSTOM, notes=_specialised(name, special, vendor)), name


def _specialised(function: str, special: frozenset[str], vendor: str) -> tuple[str, ...]:
    return (f"specialised for {vendor}",) if function in special else ()


def _exported(archive: Archive, member: str) -> frozenset[str]:
    if member not in archive.names:
        return frozenset()
    return frozenset(texts(assigned(python_tree(archive.text(member), member), "__all__")))


def _left_out(archive: Archive, vendor: str) -> frozenset[str]:
    member = f"{_BACKENDS}{vendor}/__init__.py"
    if vendor == _NEVER_LEFT_OUT or member not in archive.names:
        return frozenset()
    return frozenset(texts(assigned(python_tree(archive.text(member), member), "CUSTOMIZED_UNUSED_OPS")))


def _failures(archive: Archive, vendor: str) -> Iterator[tuple[str, str]]:
    member = f"{_BACKENDS}{vendor}/op_black_list.yaml"
    if member not in archive.names:
        return
    document: Mapping[str, object] = yaml_table(archive.text(member), member)
    rows = document.get("unsupported_operators") or []
    if not isinstance(rows, list):
        raise BadInputError(f"{member}: unsupported_operators is not a list.")
    for place, row in enumerate(rows, 1):
        name, why = (row.get("name"), row.get("reason")) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(why, str):
            raise BadInputError(f"{member}: entry {place} has no name or no reason.")
        yield name, why
