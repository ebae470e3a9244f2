"""What a published package says in its own words, before the taxonomy is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.operators import EngineManifest


class RowKind(StrEnum):
    """Which of a package's tables a row stands in."""

    ATEN = "aten"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One function of a package's table: its name there (`add.Tensor`, `npu_rms_norm`), argument names, remarks on it.

    `refused` maps dtypes in which the package itself says that it fails to what it says.
    """

    name: str
    kind: RowKind
    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PackageTables:
    """A published package in its own words, before the taxonomy is asked. `library` is its name in the taxonomy.

    `excluded` maps its own function names to the reason why it leaves them out; `unknown` says what its tables do not tell;
    `device` is the one torch device type that it is for (None: it does not depend on it).
    """

    library: str
    version: str
    source: str
    rows: tuple[TableRow, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    engines: tuple[EngineManifest, ...] = ()
    unknown: tuple[str, ...] = ()
    device: str | None = None
