"""Which architectures a modelling library knows, read from its source text as data: nothing of it is ever run."""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping

from dayzero.domain.canonical import Json
from dayzero.errors import BadInputError

REGISTRIES = ("auto_mappings.py", "configuration_auto.py")
"""Modules below models/auto that map model types to the names of configuration classes."""


def model_types(source: str) -> Mapping[str, str]:
    """Model types in a registry's source, with the name of their configuration class. BadInputError: it is no Python."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            pairs.append((node.elts[0], node.elts[1]))
        elif isinstance(node, ast.Dict):
            pairs.extend(zip(node.keys, node.values, strict=True))
    return {key: name for left, right in pairs if (key := _text(left)) and (name := _text(right) or "").endswith("Config")}


def default_configuration(source: str, class_name: str, model_type: str) -> str | None:
    """The configuration that a class describes by its defaults, as the text of a config.json; None when it is not there.

    Defaults that are no plain values (computed ones, other configurations) are left out, and so are unknown ones (None).
    """
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            plain = {name: value for name, value in _defaults(node) if value is not None and not name.startswith("_")}
            return json.dumps({**plain, "model_type": model_type}, sort_keys=True, indent=1)
    return None


PARTS = {"text": "text_config", "vision": "vision_config", "vision_encoder": "vision_config", "audio": "audio_config",
         "audio_encoder": "audio_config"}  # fmt: skip
"""How the type of a part ends, and the field of the whole's configuration that describes it."""

_PART = re.compile(r"(.+?)_(?:text|vision|audio|speech|video|encoder|decoder|tokenizer)(?:_\w+)?$")


def whole_architectures(types: Collection[str]) -> set[str]:
    """The types that are no part of another one: kimi_vl, and not kimi_vl_text or kimi_vl_vision_encoder."""
    return {name for name in types if (found := _PART.fullmatch(name)) is None or found[1] not in types}


def parts_of(model_type: str, types: Collection[str]) -> tuple[str, ...]:
    """The types of an architecture's parts that its configuration nests."""
    return tuple(part for ending in PARTS if (part := f"{model_type}_{ending}") in types)


def nested_configuration(model_type: str, described: Mapping[str, str]) -> str:
    """One config.json of an architecture and its parts, each described by its defaults."""
    whole = json.loads(described[model_type])
    for ending, field in PARTS.items():
        if (part := described.get(f"{model_type}_{ending}")) is not None:
            whole.setdefault(field, json.loads(part))
    return json.dumps(whole, sort_keys=True, indent=1)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInputError(f"the library's source is no Python that can be read: {str(error)[:160]}.") from error


def _defaults(found: ast.ClassDef) -> Iterator[tuple[str, Json]]:
    """Annotated fields of the class, and the keyword defaults of its constructor."""
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield from _plain(node.target.id, node.value)
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            arguments = [*node.args.posonlyargs, *node.args.args]
            given = node.args.defaults
            for argument, value in zip(arguments[len(arguments) - len(given) :], given, strict=True):
                yield from _plain(argument.arg, value)
            for argument, stated in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if stated is not None:
                    yield from _plain(argument.arg, stated)


def _plain(name: str, value: ast.expr) -> Iterator[tuple[str, Json]]:
    try:
        found = ast.literal_eval(value)
        text = json.dumps(found, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    yield name, json.loads(text)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
