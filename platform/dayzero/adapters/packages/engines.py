"""Serving engines' wheels: vLLM's registries, and what a plugin of it adds."""

import ast
import configparser
from collections.abc import Iterator

from dayzero.adapters.packages.archive import Archive
from dayzero.adapters.packages.foreign import assigned, calls_of, python_tree, text_of, texts
from dayzero.domain.operators import EngineManifest
from dayzero.domain.packages import PackageTables
from dayzero.errors import BadInputError
from dayzero.stages.inventory.taxonomy import Taxonomy

ENGINE = "vllm"
BACKEND_LIBRARY = "vllm-backend"
"""Under this name the taxonomy keeps vLLM's attention backends."""

_MODELS = "vllm/model_executor/models/registry.py"
_QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"
_BACKENDS = ("vllm/v1/attention/backends/registry.py", "vllm/attention/backends/registry.py")
_PLUGIN_GROUPS = ("vllm.platform_plugins", "vllm.general_plugins")
_UNKNOWN = (
    "which attention backend runs on a platform, for which head sizes and dtypes, is decided at run time",
    "which quantization methods a platform takes is decided at run time",
)
_PLUGIN_UNKNOWN = (
    "a plugin adds to its engine: what the engine itself offers there must be imported beside it",
    "what a plugin registers under computed names cannot be seen without running it",
)
_REGISTERING = ("register_model", "register_quantization_config")
_SCANNED_MODULES = 4000


def reads(archive: Archive) -> bool:
    """Whether the wheel is vLLM or a plugin of it."""
    return _MODELS in archive.names or any(group in _PLUGIN_GROUPS for group, _ in _entry_points(archive))


def tables_of(archive: Archive, name: str, version: str, source: str, taxonomy: Taxonomy) -> PackageTables:
    """The engine's registries, or what a plugin registers on top of them."""
    if _MODELS in archive.names:
        engine = _engine(archive, version, source, taxonomy)
        return PackageTables(name, version, source, engines=(engine,), unknown=_UNKNOWN)
    return PackageTables(name, version, source, engines=(_plugin(archive, name, version, source),), unknown=_PLUGIN_UNKNOWN)


def _engine(archive: Archive, version: str, source: str, taxonomy: Taxonomy) -> EngineManifest:
    tree = python_tree(archive.text(_MODELS), _MODELS)
    tables = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)]
    architectures = {
        text
        for table in tables
        if isinstance(table.value, ast.Dict)
        for text, module in zip(texts(table.value), _values(table.value), strict=False)
        if module
    }
    if not architectures:
        raise BadInputError(f"{_MODELS} holds no table of architectures.", remedy="This release keeps them elsewhere.")
    backends = tuple(sorted(set(_backends(archive))))
    return EngineManifest(
        ENGINE,
        version,
        tuple(sorted(architectures)),
        _kinds_of(backends, taxonomy),
        tuple(sorted(set(_methods(archive)))),
        source=source,
        attention_backends=backends,
    )


def _values(table: ast.Dict) -> list[bool]:
    """Whether each text key of a table is given a (module, class) pair: other tables map to versions or addresses."""
    return [
        isinstance(value, ast.Tuple | ast.List) and len(texts(value)) == 2
        for key, value in zip(table.keys, table.values, strict=True)
        if text_of(key) is not None
    ]


def _methods(archive: Archive) -> tuple[str, ...]:
    if _QUANTIZATION not in archive.names:
        return ()
    tree = python_tree(archive.text(_QUANTIZATION), _QUANTIZATION)
    literal = assigned(tree, "QuantizationMethods")
    if isinstance(literal, ast.Subscript):
        return texts(literal.slice)
    return texts(assigned(tree, "QUANTIZATION_METHODS"))


def _backends(archive: Archive) -> Iterator[str]:
    for member in _BACKENDS:
        if member not in archive.names:
            continue
        for node in python_tree(archive.text(member), member).body:
            if not isinstance(node, ast.ClassDef) or not node.name.endswith("BackendEnum"):
                continue
            for statement in node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    yield statement.targets[0].id


def _kinds_of(backends: tuple[str, ...], taxonomy: Taxonomy) -> tuple[str, ...]:
    """The taxonomy's kernels that one of the backends is known to serve."""
    return tuple(
        operator.name for operator in taxonomy.operators if set(operator.known.get(BACKEND_LIBRARY, ())) & set(backends)
    )


def _plugin(archive: Archive, name: str, version: str, source: str) -> EngineManifest:
    """What the plugin's own modules register by a call with a constant name."""
    package = {
        target.partition(":")[0].partition(".")[0] for group, target in _entry_points(archive) if group in _PLUGIN_GROUPS
    }
    modules = [member for member in sorted(archive.names) if member.endswith(".py") and member.partition("/")[0] in package]
    architectures, methods = set(), set()
    for member in modules[:_SCANNED_MODULES]:
        text = archive.text(member)
        if not any(call in text for call in _REGISTERING):
            continue
        tree = python_tree(text, member)
        architectures |= set(_first_arguments(tree, _REGISTERING[0]))
        methods |= set(_first_arguments(tree, _REGISTERING[1]))
    return EngineManifest(
        name, version, tuple(sorted(architectures)), (), tuple(sorted(methods)), source=source, plugin_of=ENGINE
    )


def _first_arguments(tree: ast.Module, function: str) -> Iterator[str]:
    for call in calls_of(tree, function):
        text = text_of(call.args[0]) if call.args else None
        if text is not None:
            yield text


def _entry_points(archive: Archive) -> list[tuple[str, str]]:
    """(group, target) of every entry point that the wheel declares."""
    found: list[tuple[str, str]] = []
    for member in sorted(archive.names):
        if not member.endswith(".dist-info/entry_points.txt"):
            continue
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        try:
            parser.read_string(archive.text(member))
        except configparser.Error as error:
            raise BadInputError(f"{member} cannot be read: {error}.") from error
        found += [(section, target.strip()) for section in parser.sections() for _, target in parser.items(section)]
    return found
