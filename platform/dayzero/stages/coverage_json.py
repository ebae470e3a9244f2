"""The document of `dayzero ops --json`: additive only, its shape named by `schema`."""

from dayzero.domain.canonical import Json, plain
from dayzero.domain.operators import CoverageReport, OperatorInventory

SCHEMA = "dayzero.ops/1"


def ops_document(spec_ref: str, inventory: OperatorInventory, report: CoverageReport | None) -> dict[str, Json]:
    """Inventory and, where a platform was asked for, its coverage.

    Keys: schema, model, architecture, traced_with, kernels, graph, findings, totals {graph_uses, calls, flops_prefill,
    flops_decode} (each None where nothing was traced), coverage (None without a platform).
    """
    return {
        "schema": SCHEMA,
        "model": spec_ref,
        "architecture": inventory.architecture,
        "traced_with": inventory.traced_with,
        "kernels": plain(inventory.kernels),
        "graph": plain(inventory.graph),
        "totals": _totals(inventory),
        "findings": plain(inventory.findings),
        "coverage": None if report is None else plain(report),
    }


def _totals(inventory: OperatorInventory) -> dict[str, Json]:
    if inventory.traced_with is None:
        return {"graph_uses": None, "calls": None, "flops_prefill": None, "flops_decode": None}
    flops = {phase: sum(use.flops or 0 for use in inventory.graph if use.phase == phase) for phase in ("prefill", "decode")}
    return {
        "graph_uses": len(inventory.graph),
        "calls": sum(use.count for use in inventory.graph),
        "flops_prefill": flops["prefill"],
        "flops_decode": flops["decode"],
    }
