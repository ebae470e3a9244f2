"""SENSITIVE: which modules must keep their precision, found by measuring sets of them against the higher precision."""

import time
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.agreement import divergence
from dayzero.adapters.runners.figures import dtype_name, finite
from dayzero.adapters.runners.heads import wide_logits
from dayzero.adapters.runners.schemes import Schemed
from dayzero.adapters.runners.three_ways import reference_dtype
from dayzero.domain.precision_policy import PrecisionPolicy, Promotion, SensitiveObserved, Tried
from dayzero.domain.runs import RunRequest
from dayzero.stages.precision import limits
from dayzero.stages.precision.promotion import fewest, worst_first

TOKENS = 96
SCHEME = "int8"


def observe_sensitive(request: RunRequest) -> SensitiveObserved:
    """Search on the packaged text's first tokens, on the host. Options: `scheme` (see schemes), `tokens`, `limit`."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    name, text = loading.packaged_text()
    given = loading.text_tokens(folder, config, text, loading.option_int(request, "tokens", TOKENS, 2))
    native = loading.load_model(folder, dtype)
    exact = wide_logits(native, given.ids, reference_dtype(dtype)).to(torch.float64).log_softmax(-1)
    search = _Search(native, given.ids, exact, str(request.options.get("scheme", SCHEME)))
    own = search.divergence(frozenset(search.schemed.units))
    stated = request.options.get("limit")
    limit = (
        float(stated) if isinstance(stated, int | float) else limits.FACTOR_MEAN * max(own or 0.0, limits.KL[dtype_name(dtype)])
    )
    search.limit = limit
    alone = {unit: search.alone(unit) for unit in search.schemed.units}
    order = worst_first(alone)
    found = fewest(order, search.meets)
    search.schemed.restore()
    promoted = None if found.promoted is None else tuple(Promotion(unit, alone[unit]) for unit in found.promoted)
    return SensitiveObserved(
        dtype_name(dtype),
        dtype_name(reference_dtype(dtype)),
        search.schemed.scheme,
        name,
        given.source,
        given.ids.shape[1],
        len(alone),
        limit,
        own,
        search.known.get(frozenset()),
        None if promoted is None else PrecisionPolicy(search.schemed.scheme, promoted),
        None if found.promoted is None else search.known.get(frozenset(found.promoted)),
        found.promoted is not None,
        tuple(Promotion(unit, alone[unit]) for unit in order),
        tuple(search.tried),
        request.custom_operators,
        time.monotonic() - began,
    )


class _Search:
    """The model under a scheme, and every divergence that was measured."""

    def __init__(self, model: Any, ids: torch.Tensor, exact: torch.Tensor, scheme: str) -> None:
        self.model, self.ids, self.exact = model, ids, exact
        self.schemed = Schemed(model, scheme)
        self.limit = 0.0
        self.known: dict[frozenset[str], float | None] = {}
        self.tried: list[Tried] = []

    def meets(self, promoted: frozenset[str]) -> bool:
        """Whether the divergence with these promoted is within the limit."""
        divergence = self.divergence(promoted)
        met = divergence is not None and divergence <= self.limit
        self.tried.append(Tried(tuple(sorted(promoted)), divergence, met))
        return met

    def divergence(self, promoted: frozenset[str]) -> float | None:
        """KL from the higher precision with these promoted, nats a token."""
        if promoted not in self.known:
            self.schemed.promote(promoted)
            self.known[promoted] = self._measured()
        return self.known[promoted]

    def alone(self, unit: str) -> float | None:
        """KL with this unit alone under the scheme."""
        self.schemed.only(frozenset((unit,)))
        return self._measured()

    def _measured(self) -> float | None:
        with torch.no_grad():
            logits = self.model(self.ids, use_cache=False).logits[0].to(torch.float64).log_softmax(-1)
        return finite(float(divergence(self.exact, logits).mean()))
