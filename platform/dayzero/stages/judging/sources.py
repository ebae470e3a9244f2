"""Where an observation had its weights and its references from, as a check tells it."""

from dayzero.domain.canonical import Numbers
from dayzero.domain.observed_source import WeightSource


def taken_from(source: WeightSource | None, baseline: str | None) -> Numbers:
    """Figures of a streamed source, and the recorded baseline by its name; nothing where neither was."""
    found: dict[str, int | float | str | None] = {}
    if source is not None and source.streamed:
        found["weights"] = f"streamed layer by layer: {source.why}"
        found["largest_layer_bytes"] = source.largest_layer_bytes
        found["weights_read_bytes"] = source.read_bytes
        if source.experts:
            found["experts_read"] = f"{source.experts_read:,} of {source.experts:,}"
    if baseline is not None:
        found["baseline"] = baseline
    return found
