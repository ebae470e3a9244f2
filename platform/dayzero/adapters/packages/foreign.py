"""Foreign YAML and Python as data: parsed within bounds, never executed."""

import ast
from collections.abc import Iterable, Iterator, Mapping

import yaml

from dayzero.errors import BadInputError

_MAX_DEPTH = 32
_Loader: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_table(text: str, where: str) -> Mapping[str, object]:
    """A YAML mapping; BadInputError for anything else, for aliases (which can blow up) and for absurd nesting."""
    try:
        _bounded(text, where)
        document = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInputError(f"{where} is not YAML: {str(error)[:300]}.") from error
    if not isinstance(document, dict):
        raise BadInputError(f"{where} is not a mapping.")
    return {str(key): value for key, value in document.items()}


def _bounded(text: str, where: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadInputError(f"{where} uses YAML aliases, which tables do not need.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise BadInputError(f"{where} is nested more than {_MAX_DEPTH} deep.")


def python_tree(text: str, where: str) -> ast.Module:
    """A Python module's syntax tree; BadInputError when it is none or nested too deep."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInputError(f"{where} is not Python that can be read: {error}.") from error


def assigned(tree: ast.Module, name: str) -> ast.expr | None:
    """What a module assigns to that name at its top level (the last time), or None."""
    found = None
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                found = statement.value
    return found


def texts(node: ast.expr | None) -> tuple[str, ...]:
    """The texts that stand in a list, tuple, set or the keys of a dictionary, in order; others are left out."""
    items: Iterable[ast.expr | None] = ()
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = node.elts
    elif isinstance(node, ast.Dict):
        items = node.keys
    return tuple(text for item in items if (text := text_of(item)) is not None)


def text_of(node: ast.expr | None) -> str | None:
    """A constant text, or None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def calls_of(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Every call of a function or method of that name, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            called = (
                function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
            )
            if called == name:
                yield node
