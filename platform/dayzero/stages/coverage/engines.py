"""The engine route: whether a serving engine says that it runs the architecture, its attention and its weights."""

from collections.abc import Iterable

from dayzero.domain.operators import EngineManifest, EngineRoute, OperatorInventory

_MIXERS = ("attention.", "linear_attention.", "ssm.")
_PLAIN = frozenset({"attention.mha", "attention.gqa", "attention.mqa", "attention.bidirectional"})
"""Kinds that one attention kernel serves: an engine that names one of them has the others."""


def engine_routes(inventory: OperatorInventory, engines: Iterable[EngineManifest]) -> tuple[EngineRoute, ...]:
    """One route an engine: covered when it says yes to everything, missing at the first no, unknown (None) else."""
    return tuple(_route(inventory, engine) for engine in engines)


def _route(inventory: OperatorInventory, engine: EngineManifest) -> EngineRoute:
    judged = [_architecture(inventory, engine), *_attention(inventory, engine), _quantization(inventory, engine)]
    answers = [answer for answer, _ in judged]
    covered = False if False in answers else None if None in answers else True
    # What decides stands first: every no, then what is not known, then every yes.
    order = {False: 0, None: 1, True: 2}
    reasons = tuple(reason for answer, reason in sorted(judged, key=lambda item: order[item[0]]) if reason)
    return EngineRoute(engine.engine, engine.version, covered, engine.grade, reasons)


def _architecture(inventory: OperatorInventory, engine: EngineManifest) -> tuple[bool | None, str]:
    if inventory.architecture is None:
        return None, "the configuration names no architecture"
    if not engine.architectures:
        return None, f"{engine.engine} {engine.version} lists no architectures"
    if inventory.architecture in engine.architectures:
        return True, f"{inventory.architecture} is registered"
    return False, f"{inventory.architecture} is not among its {len(engine.architectures)} registered architectures"


def _attention(inventory: OperatorInventory, engine: EngineManifest) -> list[tuple[bool | None, str]]:
    needed = sorted({kernel.name for kernel in inventory.kernels if kernel.name.startswith(_MIXERS)})
    if not needed:
        return [(None, "the kinds of attention are unknown")]
    if not engine.attention_kinds:
        return [(None, f"{engine.engine} {engine.version} lists no attention kinds")]
    offered = set(engine.attention_kinds) | (_PLAIN if _PLAIN & set(engine.attention_kinds) else set())
    missing = [name for name in needed if name not in offered]
    if missing:
        return [(False, f"it names no {name}") for name in missing]
    return [(True, f"it has {', '.join(needed)}")]


def _quantization(inventory: OperatorInventory, engine: EngineManifest) -> tuple[bool | None, str]:
    method = inventory.quantization
    if method is None:
        return True, ""
    if not engine.quantization_methods:
        return None, f"{engine.engine} {engine.version} lists no quantization methods"
    offered = {_plain(name) for name in engine.quantization_methods}
    if _plain(method) in offered:
        return True, f"it reads {method} weights"
    return False, f"{method} is not among its quantization methods"


def _plain(method: str) -> str:
    return method.lower().replace("-", "_")
