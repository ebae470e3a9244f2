"""One profile's TOML table into its noun, every field checked."""

import math
from collections.abc import Mapping

from dayzero.domain.platforms import Fact, Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.errors import BadInputError

Table = dict[str, object]
"""A TOML table before it is checked."""

_FIELDS = frozenset({
    "slug", "title", "torch_device", "memory_bytes", "memory_bandwidth_bytes_per_s", "flops_per_s", "link_domains", "dtypes",
    "operator_dtypes", "excluded_operators", "notes", "vendor", "devices_per_node", "nic_bytes_per_s",
    "host_link_bytes_per_s", "plugin_package", "collectives", "engines", "unsupported_dtypes", "reserve_bytes",
})  # fmt: skip


def profile_from(table: Table, file: str) -> PlatformProfile:
    """The profile; BadInputError names the file and the field that is wrong, an unknown field included."""
    for name in sorted(set(table) - _FIELDS):
        raise _wrong(file, name, f"no such field (there are {', '.join(sorted(_FIELDS))})")
    slug = _text(table, "slug", file)
    return PlatformProfile(
        slug=slug,
        title=_text(table, "title", file) if "title" in table else slug,
        torch_device=_text(table, "torch_device", file) if "torch_device" in table else None,
        memory_bytes=_figure(table, "memory_bytes", "B", file),
        memory_bandwidth_bytes_per_s=_figure(table, "memory_bandwidth_bytes_per_s", "B/s", file),
        flops_per_s=_rates(table, file),
        link_domains=_domains(table, file),
        dtypes=_texts(table.get("dtypes", []), "dtypes", file),
        excluded_operators=_reasons(table, file),
        operator_dtypes=_dtypes_by_operator(table, file),
        notes=_text(table, "notes", file) if "notes" in table else "",
        vendor=_text(table, "vendor", file) if "vendor" in table else None,
        devices_per_node=_devices_per_node(table, file),
        nic_bytes_per_s=_figure(table, "nic_bytes_per_s", "B/s", file),
        host_link_bytes_per_s=_figure(table, "host_link_bytes_per_s", "B/s", file),
        plugin_package=_fact(table, "plugin_package", file),
        collectives=_fact(table, "collectives", file),
        engines=_facts(table, "engines", file),
        unsupported_dtypes=_facts(table, "unsupported_dtypes", file),
        reserve_bytes=_figure(table, "reserve_bytes", "B", file),
    )


def _wrong(file: str, field: str, why: str) -> BadInputError:
    return BadInputError(f"platform profile {file}: {field}: {why}.")


def _text(table: Mapping[str, object], field: str, file: str, where: str = "") -> str:
    value = table.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(file, where + field, "must be a text that is not empty")
    return value


def _texts(value: object, field: str, file: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(file, field, "must be a list of texts")
    return tuple(value)


def _sub(value: object, field: str, file: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong(file, field, "must be a table")
    return value


def _figure(table: Mapping[str, object], field: str, unit: str | None, file: str, where: str = "") -> Figure | None:
    """A figure with its unit, source and status, or None where the table has none."""
    if field not in table:
        return None
    path = where + field
    row = _sub(table[field], path, file)
    value = row.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise _wrong(file, f"{path}.value", f"must be a number above 0, not {value!r}")
    stated = _text(row, "unit", file, f"{path}.")
    if unit is not None and stated != unit:
        raise _wrong(file, f"{path}.unit", f"must be {unit}, not {stated}")
    return Figure(float(value), stated, _text(row, "source", file, f"{path}."), _status(row, path, file))


def _status(row: Mapping[str, object], path: str, file: str) -> FigureStatus:
    status = _text(row, "status", file, f"{path}.")
    if status not in tuple(FigureStatus):
        raise _wrong(file, f"{path}.status", f"must be one of {', '.join(FigureStatus)}, not {status}")
    return FigureStatus(status)


def _fact(table: Mapping[str, object], field: str, file: str, where: str = "") -> Fact | None:
    """A named thing with its source and status, or None where the table has none."""
    if field not in table:
        return None
    path = where + field
    row = _sub(table[field], path, file)
    value = _text(row, "value", file, f"{path}.")
    return Fact(value, _text(row, "source", file, f"{path}."), _status(row, path, file))


def _facts(table: Table, field: str, file: str) -> Mapping[str, Fact]:
    rows = _sub(table.get(field, {}), field, file)
    found = {name: _fact(rows, name, file, f"{field}.") for name in sorted(rows)}
    return {name: fact for name, fact in found.items() if fact is not None}


def _devices_per_node(table: Table, file: str) -> Figure | None:
    figure = _figure(table, "devices_per_node", "device", file)
    if figure is not None and not figure.value.is_integer():
        raise _wrong(file, "devices_per_node.value", f"must be a whole number, not {figure.value}")
    return figure


def _rates(table: Table, file: str) -> Mapping[str, Figure]:
    rows = _sub(table.get("flops_per_s", {}), "flops_per_s", file)
    found = {dtype: _figure(rows, dtype, None, file, "flops_per_s.") for dtype in sorted(rows)}
    return {dtype: figure for dtype, figure in found.items() if figure is not None}


def _domains(table: Table, file: str) -> tuple[LinkDomain, ...]:
    rows = table.get("link_domains", [])
    if not isinstance(rows, list):
        raise _wrong(file, "link_domains", "must be a list of tables")
    domains = []
    for place, item in enumerate(rows, 1):
        where = f"link_domains[{place}]"
        row = _sub(item, where, file)
        devices = row.get("devices")
        if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
            raise _wrong(file, f"{where}.devices", f"must be a whole number above 0, not {devices!r}")
        bandwidth = _figure(row, "bandwidth_bytes_per_s", "B/s", file, f"{where}.")
        domains.append(
            LinkDomain(
                _text(row, "name", file, f"{where}."), devices, bandwidth, _figure(row, "latency_s", "s", file, f"{where}.")
            )
        )
    return tuple(sorted(domains, key=lambda domain: domain.devices))


def _reasons(table: Table, file: str) -> Mapping[str, str]:
    rows = _sub(table.get("excluded_operators", {}), "excluded_operators", file)
    return {name: _text(rows, name, file, "excluded_operators.") for name in sorted(rows)}


def _dtypes_by_operator(table: Table, file: str) -> Mapping[str, tuple[str, ...]]:
    rows = _sub(table.get("operator_dtypes", {}), "operator_dtypes", file)
    return {name: _texts(rows[name], f"operator_dtypes.{name}", file) for name in sorted(rows)}
