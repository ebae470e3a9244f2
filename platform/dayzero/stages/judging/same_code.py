"""Model types that a modelling library runs under another name: the same code, by the publisher's word and by our rules."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dayzero.domain.findings import Finding, Severity
from dayzero.stages.structure.families import FAMILIES

SAME_CODE = "trace.same_code"
"""Finding: the type is unknown to the library and was traced as another, of which it is known to be the same code."""


@dataclass(frozen=True, slots=True)
class _Equal:
    """The type that the library knows, the classes that a configuration must name, and why both are the same code."""

    library_type: str
    classes: tuple[str, ...]
    why: str


_EQUALS: Mapping[str, _Equal] = {
    "kimi_k2": _Equal("deepseek_v3", ("DeepseekV3ForCausalLM",), "its publisher names DeepSeek-V3's class for it"),
    "minimax_m3": _Equal(
        "minimax_m3_vl_text", ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"), "it is minimax_m3_vl's language model"
    ),
}


def as_same_code(config: str) -> tuple[str, Finding] | None:
    """The configuration under the type that the library knows, with a finding that says so; None where there is none.

    A type is another's equal only when the configuration names the class of that code, and our structure rules for both types
    are the same.
    """
    document = _object(config)
    model_type = document.get("model_type")
    equal = _EQUALS.get(model_type) if isinstance(model_type, str) else None
    named = document.get("architectures")
    if equal is None or not isinstance(named, list) or not set(equal.classes) & {str(name) for name in named}:
        return None
    ours, theirs = FAMILIES.get(str(model_type)), FAMILIES.get(equal.library_type)
    if ours is None or theirs is None or replace(ours, name="") != replace(theirs, name=""):
        return None
    message = f"{model_type} is unknown to the library; it was traced as {equal.library_type}, the same code: {equal.why}"
    document["model_type"] = equal.library_type
    return json.dumps(document), Finding(SAME_CODE, str(model_type), message, Severity.WARNING)


def _object(config: str) -> dict[str, object]:
    try:
        document = json.loads(config)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
