"""A signature groups the same root cause across models: words without what differs from model to model and run to run."""

import re

from dayzero.domain.canonical import digest
from dayzero.domain.failures import Symptom

MAX_CHARACTERS = 400
DIGITS = 16

_DIFFERS = (
    (re.compile(r"\b(?:hf|ms|dir|config):\S+"), "<model>"),
    (re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}"), "<path>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "#"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "#"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,}\b", re.IGNORECASE), "#"),
)
_NUMBER = re.compile(r"[-+]?\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def normalised(said: str, names: tuple[str, ...] = ()) -> str:
    """The words in one line without numbers, paths, addresses, ids and the given names (the model's); again changes nothing."""
    text = said
    for name in sorted((name for name in names if name), key=len, reverse=True):
        text = text.replace(name, "<model>")
    for pattern, instead in _DIFFERS:
        text = pattern.sub(instead, text)
    text = _SPACE.sub(" ", _NUMBER.sub("#", text)).strip()
    return text[:MAX_CHARACTERS].rstrip()


def shape_class_of(shapes: str) -> str:
    """Shapes without their sizes: how many tensors of how many dimensions."""
    return _NUMBER.sub("#", shapes)


def signature(symptom: Symptom, names: tuple[str, ...] = ()) -> str:
    """The same for the same root cause: kind, operator, dtypes, class of shapes, platform, check and normalised words.

    The stack is no part of it, so that what a new stack does not mend is not told as something new. Where an operator is known
    to be at fault neither check nor words count: several checks stumble over it, each with figures of its own.
    """
    words = () if symptom.operator else (symptom.check, normalised(symptom.said, names))
    about = (symptom.kind, symptom.operator, sorted(symptom.dtypes), shape_class_of(symptom.shape_class), symptom.platform)
    return digest((*about, *words))[:DIGITS]
