"""In what a model computes, beside its platform: one word that keys an entry, and what the word says."""

from dataclasses import dataclass

EIGHT_BITS = ("fp8", "float8_e4m3fn", "float8_e5m2", "int8")
"""Cache dtypes of one byte an element: what is read back is not what was written."""

_JOIN, _CACHE = "+", "-cache"


@dataclass(frozen=True, slots=True)
class Computing:
    """The dtype of the tensors, the scheme of a precision policy over it, and the cache's dtype where a plan chose one.

    As text: bfloat16, bfloat16+int8, bfloat16+int8+fp8-cache.
    """

    dtype: str
    scheme: str | None = None
    cache_dtype: str | None = None

    def __str__(self) -> str:
        """The text."""
        cache = None if self.cache_dtype is None else f"{self.cache_dtype}{_CACHE}"
        return _JOIN.join(one for one in (self.dtype, self.scheme, cache) if one is not None)


def computing_of(text: str) -> Computing:
    """What the text says."""
    dtype, *over = text.split(_JOIN)
    caches = [one.removesuffix(_CACHE) for one in over if one.endswith(_CACHE)]
    schemes = [one for one in over if not one.endswith(_CACHE)]
    return Computing(dtype, schemes[0] if schemes else None, caches[0] if caches else None)
