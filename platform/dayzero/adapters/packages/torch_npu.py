"""torch-npu's wheel: the tables that its kernels are generated from.

`supported` lists ATen operators with a kernel for the device, `custom` its own fused functions with their signatures.
"""

from collections.abc import Iterator, Mapping

from dayzero.adapters.packages.archive import Archive
from dayzero.adapters.packages.foreign import yaml_table
from dayzero.domain.packages import PackageTables, RowKind, TableRow
from dayzero.errors import BadInputError

LIBRARY = "torch-npu"
_FOLDER = "torch_npu/csrc/aten/"
_TABLES = ("npu_native_functions_by_codegen.yaml", "npu_native_functions.yaml")
_SECTIONS = {
    "supported": RowKind.ATEN,
    "symint": None,
    "quant": RowKind.ATEN,
    "autograd": RowKind.ATEN,
    "custom": RowKind.CUSTOM,
}
"""A section's kind; `symint` repeats rows of the others with symbolic sizes."""

_UNKNOWN = (
    "the tables state no dtypes, shapes or formats: an operator may still refuse some",
    "the tables do not say on which chips of the family a kernel works, nor which CANN release it needs",
    "an operator that only stands as an out variant works otherwise where torch makes it of that one",
)


def reads(archive: Archive) -> bool:
    """Whether the wheel holds the tables."""
    return _FOLDER + _TABLES[0] in archive.names


def tables_of(archive: Archive, version: str, source: str) -> PackageTables:
    """Both tables as rows; BadInputError names the table and the entry that cannot be read."""
    custom: dict[str, TableRow] = {}
    supported: dict[str, TableRow] = {}
    for file in _TABLES:
        if _FOLDER + file not in archive.names:
            continue
        document = yaml_table(archive.text(_FOLDER + file), file)
        for section, kind in _SECTIONS.items():
            for row in _rows(document, section, kind or RowKind.ATEN, file):
                if kind is RowKind.CUSTOM:
                    custom[row.name] = row
                elif kind is not None or row.name not in custom:
                    supported.setdefault(row.name, row)
    # A function of the package's own may stand in `supported` too (its second half): it is no ATen operator for that.
    rows = [row for row in supported.values() if row.name not in custom and not row.name.startswith(("npu_", "_npu_"))]
    return PackageTables(LIBRARY, version, source, (*rows, *custom.values()), unknown=_UNKNOWN, device="npu")


def _rows(document: Mapping[str, object], section: str, kind: RowKind, file: str) -> Iterator[TableRow]:
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise BadInputError(f"{file}: {section} is not a list.")
    for place, entry in enumerate(entries, 1):
        fields: Mapping[object, object] = entry if isinstance(entry, dict) else {"func": entry}
        function = fields.get("func")
        if not isinstance(function, str) or not function.strip():
            raise BadInputError(f"{file}: entry {place} of {section} names no function.")
        name, opens, rest = function.partition("(")
        yield TableRow(name.strip(), kind, _arguments(rest) if opens else (), _notes(fields))


def _arguments(signature: str) -> tuple[str, ...]:
    """Argument names of `Tensor x, int[2] size=[0, 0], *, Tensor? y=None) -> …`."""
    names, depth, word = [], 0, ""
    for character in signature:
        if character == ")" and depth == 0:
            break
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            names.append(word)
            word = ""
        else:
            word += character
    names.append(word)
    return tuple(name for text in names if (name := text.partition("=")[0].strip().rpartition(" ")[2]) and name != "*")


def _notes(fields: Mapping[object, object]) -> tuple[str, ...]:
    """What an entry says beside its signature, in words."""
    notes = []
    where = fields.get("impl_ns")
    if isinstance(where, str) and "op_api" not in where.replace(" ", "").split(","):
        notes.append(f"only on the older path ({where})")
    if "sparse" in fields and where is None:
        notes.append("for sparse tensors only")
    dispatch = fields.get("dispatch")
    if isinstance(dispatch, dict):
        notes.extend(
            f"made of others by the library ({key})" for key in sorted(map(str, dispatch)) if key.startswith("Composite")
        )
    return tuple(notes)
