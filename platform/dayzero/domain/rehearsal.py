"""Rehearsals: the architecture at reduced depth and width, with dummy weights, before there are real ones."""

from dataclasses import dataclass

from dayzero.domain.findings import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """One field of a configuration that was reduced; values as JSON text, `now` is None for a field that was removed."""

    name: str
    was: str
    now: str | None


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduced configuration (JSON text), what was changed in it, and the layers of the original that it keeps.

    What decides which kernels run stays: head widths, latent ranks of keys and values, compression rates, activations, routing.
    What only multiplies work shrinks: depth, heads, widths, experts, vocabulary, windows. `findings` tell what it leaves out.
    """

    config: str
    layers: int
    kinds: int
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...] = ()
