"""Lock files: the part of pip's requirements format that says exactly what is installed, and nothing else of it."""

import re
from collections.abc import Iterator

from dayzero.domain.stacks import Pin, StackRecipe
from dayzero.errors import BadInputError

MAX_LOCK_BYTES = 1 << 20
MOST_PINS = 500

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_PIN = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)==([0-9A-Za-z](?:[0-9A-Za-z.!+_-]{0,63}))")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def read_lock(name: str, text: str) -> StackRecipe:
    """The recipe that a lock file's text describes; BadInputError names the line that is none of `NAME==VERSION`, with or
    without `--hash=sha256:…` behind it (continued with a backslash, as pip writes it)."""
    if not NAME.fullmatch(name):
        raise BadInputError(f"{name[:80]!r} names no stack.", remedy="Take small letters, digits, dots and dashes.")
    if len(text) > MAX_LOCK_BYTES:
        raise BadInputError(
            f"the lock of stack {name} has {len(text):,} characters; more than {MAX_LOCK_BYTES:,} are not read."
        )
    pins: dict[str, Pin] = {}
    for number, line in _lines(text):
        pin = _pin(name, number, line)
        if pin.name in pins:
            raise BadInputError(f"line {number} of the lock of stack {name} pins {pin.name} a second time.")
        pins[pin.name] = pin
    if not 0 < len(pins) <= MOST_PINS:
        raise BadInputError(f"the lock of stack {name} pins {len(pins)} packages; it needs 1 to {MOST_PINS}.")
    hashed = {bool(pin.sha256) for pin in pins.values()}
    if len(hashed) > 1:
        bare = next(pin for pin in pins.values() if not pin.sha256)
        raise BadInputError(f"the lock of stack {name} states a hash for some packages and none for {bare}.",
                            remedy=f"Make it anew: dayzero stack add {name} {bare}")  # fmt: skip
    return StackRecipe(name, tuple(pins[key] for key in sorted(pins)))


def write_lock(recipe: StackRecipe) -> str:
    """The lock file's text; `read_lock` reads the same recipe from it."""
    lines = [" \\\n    ".join([str(pin), *(f"--hash=sha256:{one}" for one in pin.sha256)]) for pin in recipe.pins]
    return "\n".join([f"# Stack {recipe.name}: what lies over a worker's own packages.", *lines, ""])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first one; comments and empty ones left out."""
    joined, begun = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not joined:
            begun = number
        if line.startswith("#") or (not line and not joined):
            continue
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        whole, joined = f"{joined}{line}".strip(), ""
        if whole:
            yield begun, whole
    if joined.strip():
        yield begun, joined.strip()


def _pin(stack: str, number: int, line: str) -> Pin:
    first, *rest = line.split()
    found = _PIN.fullmatch(first)
    hashes = [_HASH.fullmatch(word) for word in rest]
    if found is None or not all(hashes):
        raise BadInputError(
            f"line {number} of the lock of stack {stack} is no pin: {line[:120]!r}.",
            remedy="Each line is NAME==VERSION, with or without --hash=sha256:…",
        )
    return Pin(canonical(found[1]), found[2], tuple(one[1] for one in hashes if one))


def canonical(name: str) -> str:
    """A package's name in the one form that indexes compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
