"""Typed look-ups in a configuration: several names for one field, null as absent, wrong types refused."""

import math
from collections.abc import Iterator, Mapping

from dayzero.domain.canonical import Json
from dayzero.domain.findings import Finding, Severity
from dayzero.errors import BadInputError

MAX_SIZE = 2**40


class Fields:
    """Look-ups in the language model's configuration first, then in its wrapper. `findings` fills as fields are read."""

    def __init__(self, inner: Mapping[str, Json], outer: Mapping[str, Json]) -> None:
        self._maps = (inner, outer)
        self.findings: list[Finding] = []

    def count(self, *names: str, least: int = 1, most: int = MAX_SIZE) -> int | None:
        """A whole number within bounds, or None; lists of equal numbers are that number, other lists a finding."""
        values = [(name, number) for name, value in self._present(names)
                  if (number := self._whole(name, value, least, most)) is not None]  # fmt: skip
        return self._agreed(values)

    def window(self, *names: str) -> int | None:
        """A window in tokens; 0 and -1 mean that there is none."""
        for name, value in self._present(names):
            if value in (0, -1, False):
                return None
            return self._whole(name, value, 1, MAX_SIZE)
        return None

    def number(self, *names: str) -> float | None:
        """A finite number, or None."""
        for name, value in self._present(names):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise wrong(name, value, "a number")
            if abs(value) > 1e300 or not math.isfinite(value):
                raise wrong(name, value, "a finite number")
            return float(value)
        return None

    def flag(self, *names: str) -> bool | None:
        """A boolean, or None."""
        for name, value in self._present(names):
            if not isinstance(value, bool):
                raise wrong(name, value, "true or false")
            return value
        return None

    def text(self, *names: str) -> str | None:
        """A short text, or None."""
        for name, value in self._present(names):
            if not isinstance(value, str) or len(value) > 1000:
                raise wrong(name, value, "a short text")
            return clean(value)
        return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, or None."""
        for _, value in self._present((name,)):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise wrong(name, value, "a list of texts")
            return tuple(clean(item) for item in value if isinstance(item, str))
        return None

    def long_text(self, name: str) -> str | None:
        """A text of up to 100,000 characters, one a layer, or None."""
        for _, value in self._present((name,)):
            if not isinstance(value, str) or len(value) > 100_000:
                raise wrong(name, value, "a text")
            return value
        return None

    def inside(self, name: str) -> "Fields | None":
        """The fields of a nested object, or None; what they find is found here too."""
        value = self.mapping(name)
        if value is None:
            return None
        nested = Fields(value, {})
        nested.findings = self.findings
        return nested

    def flags(self, name: str, layers: int | None) -> tuple[int, ...] | None:
        """A 0 or 1 for each layer, or None."""
        value = self.step_or_flags(name, layers)
        return value if isinstance(value, tuple) else None

    def counts_for(self, name: str, layers: int | None) -> tuple[int, ...] | None:
        """One whole number a layer. A longer list is cut (its tail belongs to draft layers), a shorter one refused."""
        values = self.counts(name)
        if values is None or layers is None:
            return values
        self._require_layers(name, len(values), layers)
        return values[:layers]

    def texts_for(self, name: str, layers: int | None) -> tuple[str, ...] | None:
        """One text a layer. A longer list is cut (its tail belongs to draft layers), a shorter one refused."""
        values = self.texts(name)
        if values is None or layers is None:
            return values
        self._require_layers(name, len(values), layers)
        return values[:layers]

    def counts(self, name: str, *, least: int = 0) -> tuple[int, ...] | None:
        """A list of whole numbers from `least`, or None."""
        for _, value in self._present((name,)):
            if not isinstance(value, list):
                raise wrong(name, value, "a list of whole numbers")
            return tuple(_integer(name, item, least, MAX_SIZE) for item in value)
        return None

    def step_or_flags(self, name: str, layers: int | None) -> int | tuple[int, ...] | None:
        """A step between layers, or a flag for each layer."""
        for _, value in self._present((name,)):
            if not isinstance(value, list):
                return _integer(name, value, 1, MAX_SIZE)
            flags = tuple(_integer(name, item, 0, 1) for item in value)
            if layers is not None:
                self._require_layers(name, len(flags), layers)
                flags = flags[:layers]
            return flags
        return None

    def mapping(self, name: str) -> Mapping[str, Json] | None:
        """A nested object, or None."""
        for _, value in self._present((name,)):
            if not isinstance(value, dict):
                raise wrong(name, value, "an object")
            return value
        return None

    def _present(self, names: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
        for fields in self._maps:
            found = [(name, fields[name]) for name in names if fields.get(name) is not None]
            if found:
                yield from found
                return

    def _whole(self, name: str, value: Json, least: int, most: int) -> int | None:
        if not isinstance(value, list):
            return _integer(name, value, least, most)
        numbers = {_integer(name, item, 0, most) for item in value if item is not None}
        if len(numbers) == 1:
            return _integer(name, next(iter(numbers)), least, most)
        self.findings.append(
            Finding("configuration.per_layer_values", name, f"{name} differs between layers; it is not read layer by layer")
        )
        return None

    def _agreed(self, values: list[tuple[str, int]]) -> int | None:
        if not values:
            return None
        name, taken = values[0]
        for other, value in values[1:]:
            if value != taken:
                self.findings.append(
                    Finding("configuration.conflict", name, f"{name} is {taken} but {other} is {value}; {name} is taken",
                            Severity.WARNING, {name: taken, other: value})
                )  # fmt: skip
        return taken

    def _require_layers(self, name: str, length: int, layers: int) -> None:
        if length < layers:
            raise BadInputError(f"config.json: {name} has {length} items for {layers} layers.")
        if length > layers:
            message = f"{name} has {length} items for {layers} layers; the last {length - layers} are taken as draft layers"
            self.findings.append(Finding("configuration.long_list", name, message, Severity.NOTE,
                                         {"items": length, "layers": layers}))  # fmt: skip


def _integer(name: str, value: Json, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, value, "a whole number")
    if not least <= value <= most:
        raise BadInputError(f"config.json: {name} is {shown(value)}; it can be from {least} to {most}.")
    return value


def wrong(name: str, value: Json, wanted: str) -> BadInputError:
    """The error for a value of the wrong type."""
    return BadInputError(f"config.json: {name} is {shown(value)}, not {wanted}.")


def shown(value: Json) -> str:
    """A value as an error message shows it: short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    text = clean(repr(value)[:200])
    return text if len(text) <= 60 else text[:57] + "…"


def clean(text: str) -> str:
    """The text without lone surrogates, which no JSON or database can store."""
    return text.encode("utf-8", "replace").decode("utf-8")
