"""The document of `dayzero ops --json`: additive only, its shape named by `schema`."""

from dayzero.domain.canonical import Json, plain
from dayzero.domain.operators import CoverageReport, OperatorInventory

SCHEMA = "dayzero.ops/1"


_PHASES = ("prefill", "decode", "train")


def ops_document(spec_ref: str, inventory: OperatorInventory, report: CoverageReport | None) -> dict[str, Json]:
    """Inventory and, where a platform was asked for, its coverage.

    Keys: schema, model, architecture, traced_with, tp, symbols, kernels, graph, collectives, decompositions, compiled,
    findings, totals {graph_uses, calls, flops_PHASE, bytes_PHASE for each phase} (each None where nothing was traced),
    coverage (None without a platform). Totals of FLOPs and bytes leave out what is part of a composite.
    """
    return {
        "schema": SCHEMA,
        "model": spec_ref,
        "architecture": inventory.architecture,
        "traced_with": inventory.traced_with,
        "tp": inventory.tp,
        "quantization": inventory.quantization,
        "symbols": plain(inventory.symbols),
        "kernels": plain(inventory.kernels),
        "graph": plain(inventory.graph),
        "collectives": plain(inventory.collectives),
        "decompositions": plain(inventory.decompositions),
        "compiled": plain(inventory.compiled),
        "totals": _totals(inventory),
        "findings": plain(inventory.findings),
        "coverage": None if report is None else plain(report),
    }


def _totals(inventory: OperatorInventory) -> dict[str, Json]:
    names = [f"{figure}_{phase}" for phase in _PHASES for figure in ("flops", "bytes")]
    if inventory.traced_with is None:
        return dict.fromkeys(("graph_uses", "calls", *names))
    totals: dict[str, Json] = {"graph_uses": len(inventory.graph), "calls": sum(use.count for use in inventory.graph)}
    for phase in _PHASES:
        uses = [use for use in inventory.graph if use.phase == phase and use.part_of is None]
        totals[f"flops_{phase}"] = sum(use.flops or 0 for use in uses) if uses else None
        totals[f"bytes_{phase}"] = sum(use.bytes_moved or 0 for use in uses) if uses else None
    return totals
