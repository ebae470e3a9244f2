"""What the two references say of each layer, computed here or read from a recorded baseline.

references = References(source, ids, dtype, recorded)
with source.layer(index) as layer: said = references.layer(index, layer)      # in the order of the layers
"""

from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners import routing
from dayzero.adapters.runners.baseline_files import RecordedLayers
from dayzero.adapters.runners.figures import tokens_of
from dayzero.adapters.runners.layer_sources import LayerSource
from dayzero.adapters.runners.three_ways import Calls, layer_calls, reference_dtype, run_layer, run_wide, widened


@dataclass(frozen=True, slots=True)
class LayerReference:
    """One layer. `given` enters all runs; `exact` and `by_native` are its outputs from it, in higher precision and in native
    dtype; `at_wide` and `at_native` those of the chains that ran all layers before themselves. `undecided` [tokens] marks
    tokens whose routing is; `wide` is the widened layer, where it was needed."""

    given: torch.Tensor
    exact: torch.Tensor
    by_native: torch.Tensor
    at_wide: torch.Tensor
    at_native: torch.Tensor
    undecided: torch.Tensor
    wide: Any | None = None


class References:
    """The two reference chains on their way through the layers of a source: `at_wide` and `at_native` are where they are.

    `given` is what `calls` leads a model to its layers with: tokens, or what a tower takes.
    """

    def __init__(
        self,
        source: LayerSource,
        given: Any,
        dtype: torch.dtype,
        recorded: RecordedLayers | None = None,
        calls: Calls = layer_calls,
    ) -> None:
        self.dtype, self.wide_dtype, self._recorded, self.calls = dtype, reference_dtype(dtype), recorded, calls
        self.at_wide, self.wide_kwargs = calls(source.model, given, self.wide_dtype)
        self.at_native, self.native_kwargs = calls(source.model, given, dtype)

    def layer(self, index: int, native_layer: Any) -> LayerReference:
        """The next layer, which the source has now; both chains move on."""
        given = self.at_wide.to(self.dtype)
        kept = self._recorded.layer(index) if self._recorded is not None else None
        said = self._computed(index, native_layer, given) if kept is None else LayerReference(given, **kept)
        self.at_wide, self.at_native = said.at_wide, said.at_native
        return said

    def _computed(self, index: int, native_layer: Any, given: torch.Tensor) -> LayerReference:
        wide_layer = widened(native_layer, self.wide_dtype)
        wide_kwargs, native_kwargs = self.wide_kwargs[index], self.native_kwargs[index]
        records = routing.RouterRecord(wide_layer), routing.RouterRecord(native_layer)
        exact = run_wide(wide_layer, given.to(self.wide_dtype), wide_kwargs)
        by_native = run_layer(native_layer, given, native_kwargs)
        for record in records:
            record.close()
        undecided = routing.undecided(wide_layer, records[0], records[1], self.dtype, tokens_of(given))
        return LayerReference(
            given,
            exact,
            by_native,
            run_wide(wide_layer, self.at_wide, wide_kwargs),
            run_layer(native_layer, self.at_native, native_kwargs),
            undecided,
            wide_layer,
        )
