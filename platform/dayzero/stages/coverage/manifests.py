"""Operator manifests: from a package's own tables to the taxonomy's names, several joined into one, two compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dayzero.domain.manifests import DtypeFact, ManifestDifference, ManifestOrigin, Turnover
from dayzero.domain.operators import Decomposition, EngineManifest, OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.packages import PackageTables, RowKind, TableRow
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.verdict import Grade, Verdict
from dayzero.stages.inventory.taxonomy import Taxonomy

_KINDS = (SupportKind.NATIVE, SupportKind.COMPOSITE, SupportKind.FALLBACK)
_GRADES = (Grade.MEASURED, Grade.DECLARED, Grade.PREDICTED)


def graph_name(raw: str) -> str:
    """`aten::add.Tensor`, `add.Tensor` and `mm` by the names that graphs carry: aten.add.Tensor, aten.mm.default."""
    base, _, overload = raw.removeprefix("aten::").partition(".")
    return f"aten.{base}.{overload or 'default'}"


_ENGINE_LISTS: Mapping[str, Callable[[EngineManifest], tuple[str, ...]]] = {
    "architectures": lambda engine: engine.architectures,
    "quantization methods": lambda engine: engine.quantization_methods,
    "attention backends": lambda engine: engine.attention_backends,
}


def manifest_of(tables: PackageTables, taxonomy: Taxonomy, profile: PlatformProfile) -> OperatorManifest:
    """What the package declares for the platform, by graph names and the taxonomy's; grade declared.

    A kernel is offered where the taxonomy knows a name of it that stands in the tables; functions that it knows nothing of
    stay, under their own names, in `unnamed`. A kernel whose arithmetic the platform does not have is excluded, whoever
    offers it: packages serve a whole family of chips.
    """
    offered = {row.name: row for row in tables.rows if row.name not in tables.excluded}
    supports = [_graph_support(row) for row in offered.values() if row.kind is RowKind.ATEN]
    kernels, used = _kernels(offered, taxonomy, tables.library)
    impossible = _impossible(kernels, taxonomy, profile)
    kernels = [kernel for kernel in kernels if kernel.name not in impossible]
    custom = {row.name for row in offered.values() if row.kind is RowKind.CUSTOM}
    named = {support.name for support in (*supports, *kernels)}
    return OperatorManifest(
        platform=profile.slug,
        provider=tables.library,
        version=tables.version,
        operators=tuple(sorted((*supports, *kernels), key=lambda support: support.name)),
        excluded={name: why for name, why in sorted((_exclusions(tables, taxonomy) | impossible).items()) if name not in named},
        origin=ManifestOrigin.PACKAGE,
        source=tables.source,
        unnamed=tuple(sorted(custom - used)),
        unknown=tables.unknown,
        engines=tuple(replace(engine, platform=profile.slug) for engine in tables.engines),
    )


def _impossible(kernels: Iterable[OperatorSupport], taxonomy: Taxonomy, profile: PlatformProfile) -> dict[str, str]:
    """Offered kernels that need arithmetic which the platform lacks."""
    found = {}
    for kernel in kernels:
        operator = taxonomy.get(kernel.name)
        why = None if operator is None or operator.needs_dtype is None else lacking(profile, operator.needs_dtype)
        if why is not None:
            found[kernel.name] = f"{why}, which {', '.join(kernel.library_names)} needs"
    return found


def lacking(profile: PlatformProfile, dtype: str) -> str | None:
    """Why the platform has no arithmetic in the dtype; None where its profile does not say so: no rate is no proof."""
    stated = profile.unsupported_dtypes.get(dtype)
    return None if stated is None else f"{profile.slug} has no {dtype} ({stated.source})"


def _graph_support(row: TableRow) -> OperatorSupport:
    facts = tuple(DtypeFact(dtype, Verdict.ERROR, why=why) for dtype, why in sorted(row.refused.items()))
    name = graph_name(row.name)
    return OperatorSupport(
        name, SupportKind.NATIVE, Grade.DECLARED, constraints=row.notes, library_names=(row.name,), facts=facts
    )


def _kernels(offered: Mapping[str, TableRow], taxonomy: Taxonomy, library: str) -> tuple[list[OperatorSupport], set[str]]:
    """The taxonomy's kernels that the functions make, and the functions that were used for any."""
    supports, used = [], set()
    for operator in taxonomy.operators:
        fitting = [name for name in operator.known.get(library, ()) if _stands(name, offered)]
        if not fitting:
            continue
        functions = {function for name in fitting for function, _ in _parts(name)}
        used |= functions
        notes = tuple(sorted({note for function in functions for note in offered[function].notes}))
        supports.append(
            OperatorSupport(operator.name, SupportKind.NATIVE, Grade.DECLARED, constraints=notes, library_names=tuple(fitting))
        )
    return supports, used


def _parts(known: str) -> list[tuple[str, frozenset[str]]]:
    """`a(x,y)+b`, as the taxonomy writes it: each function with the arguments that it must have."""
    parts = []
    for part in known.split("+"):
        name, _, arguments = part.strip().partition("(")
        parts.append((name, frozenset(filter(None, arguments.rstrip(")").split(",")))))
    return parts


def _stands(known: str, offered: Mapping[str, TableRow]) -> bool:
    return all(name in offered and arguments <= set(offered[name].arguments) for name, arguments in _parts(known))


def _exclusions(tables: PackageTables, taxonomy: Taxonomy) -> dict[str, str]:
    """Reasons by graph name and by the taxonomy's: a kernel is excluded where every function that makes it is."""
    kinds = {row.name: row.kind for row in tables.rows}
    found = {graph_name(raw): why for raw, why in tables.excluded.items() if kinds.get(raw) is not RowKind.CUSTOM}
    for operator in taxonomy.operators:
        known = [name for name in operator.known.get(tables.library, ()) if all(part in kinds for part, _ in _parts(name))]
        reasons = [_first_reason(name, tables.excluded) for name in known]
        if known and all(reasons):
            found[operator.name] = str(reasons[0])
    return found


def _first_reason(known: str, excluded: Mapping[str, str]) -> str | None:
    return next((f"{part}: {excluded[part]}" for part, _ in _parts(known) if part in excluded), None)


def merged(manifests: Sequence[OperatorManifest]) -> OperatorManifest:
    """One manifest of several providers on one platform, the most telling first; a single one stays as it is.

    An operator that several offer is taken from the best: native before composite before fallback, measured before declared.
    It is excluded only where nobody offers it. Where an operator has several decompositions, one into native parts wins.
    """
    assert manifests and len({manifest.platform for manifest in manifests}) == 1, "one platform's manifests, at least one"
    if len(manifests) == 1:
        return _settled(manifests[0])
    best: dict[str, OperatorSupport] = {}
    for manifest in manifests:
        for support in manifest.operators:
            told = replace(support, constraints=(*support.constraints, f"by {manifest.provider} {manifest.version}"))
            known = best.get(support.name)
            best[support.name] = told if known is None else min((known, told), key=_rank)
    excluded = {name: why for manifest in manifests for name, why in manifest.excluded.items() if name not in best}
    return _settled(
        OperatorManifest(
            platform=manifests[0].platform,
            provider=" + ".join(manifest.provider for manifest in manifests),
            version=" + ".join(manifest.version for manifest in manifests),
            operators=tuple(best[name] for name in sorted(best)),
            decompositions=tuple(rule for manifest in manifests for rule in manifest.decompositions),
            excluded=excluded,
            origin=manifests[0].origin,
            source="; ".join(manifest.source for manifest in manifests if manifest.source),
            unnamed=tuple(sorted({name for manifest in manifests for name in manifest.unnamed})),
            unknown=tuple(dict.fromkeys(text for manifest in manifests for text in manifest.unknown)),
            engines=tuple(engine for manifest in manifests for engine in manifest.engines),
            collectives=tuple(fact for manifest in manifests for fact in manifest.collectives),
        )
    )


def published_stack(manifest: OperatorManifest) -> Stack:
    """The stack that stands for an imported manifest: one a provider and version, whoever imports it."""
    return Stack(manifest.platform, {"published": manifest.provider, manifest.provider: manifest.version})


def in_force(told: Sequence[tuple[OperatorManifest, Stack]]) -> tuple[OperatorManifest, Stack] | None:
    """Of all that was told of one platform, the newest first, what holds: a worker's own word before any published one.

    Without a worker's, the newest of each provider's published manifests, joined. None when nothing was told.
    """
    own = next((pair for pair in told if pair[1].published is None), None)
    if own is not None or not told:
        return own
    newest: dict[str, tuple[OperatorManifest, Stack]] = {}
    for manifest, stack in told:
        newest.setdefault(str(stack.published), (manifest, stack))
    pairs = sorted(newest.values(), key=lambda pair: pair[0].origin is not ManifestOrigin.PACKAGE)
    components = {name: version for _, stack in pairs for name, version in stack.components.items()}
    joined = merged([manifest for manifest, _ in pairs])
    return joined, Stack(joined.platform, components | {"published": joined.provider})


def _rank(support: OperatorSupport) -> tuple[int, int]:
    return _KINDS.index(support.kind), _GRADES.index(support.grade)


def _settled(manifest: OperatorManifest) -> OperatorManifest:
    """One decomposition an operator: the first whose parts are all native, else the first that was told."""
    native = {support.name for support in manifest.operators if support.kind is SupportKind.NATIVE}
    chosen: dict[str, Decomposition] = {}
    for rule in manifest.decompositions:
        known = chosen.get(rule.name)
        if known is None or (set(rule.into) <= native and not set(known.into) <= native):
            chosen[rule.name] = rule
    return replace(manifest, decompositions=tuple(chosen[name] for name in sorted(chosen)))


def difference(before: OperatorManifest, after: OperatorManifest) -> ManifestDifference:
    """What changed from one release to the other, list by list and operator by operator."""
    lists = {
        "operators": _turnover(_names(before), _names(after)),
        "excluded": _turnover(before.excluded, after.excluded),
        "unnamed": _turnover(before.unnamed, after.unnamed),
        **{f"{engine} {what}": _turnover(old, new) for engine, what, old, new in _engine_lists(before, after)},
    }
    kept = {name: turnover for name, turnover in lists.items() if turnover.removed or turnover.added}
    return ManifestDifference(after.provider, before.version, after.version, kept, dict(_changes(before, after)))


def _names(manifest: OperatorManifest) -> list[str]:
    return [support.name for support in manifest.operators]


def _turnover(old: Iterable[str], new: Iterable[str]) -> Turnover:
    was, becomes = set(old), set(new)
    return Turnover(tuple(sorted(was - becomes)), tuple(sorted(becomes - was)))


def _engine_lists(
    before: OperatorManifest, after: OperatorManifest
) -> Iterable[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    old = {engine.engine: engine for engine in before.engines}
    new = {engine.engine: engine for engine in after.engines}
    for name in sorted(old.keys() | new.keys()):
        was, becomes = old.get(name), new.get(name)
        for what, lists in _ENGINE_LISTS.items():
            yield name, what, lists(was) if was else (), lists(becomes) if becomes else ()


def _changes(before: OperatorManifest, after: OperatorManifest) -> Iterable[tuple[str, str]]:
    old = {support.name: support for support in before.operators}
    for support in after.operators:
        known = old.get(support.name)
        if known is None:
            continue
        said = [
            f"{what} was {_words(was)}, is {_words(now)}"
            for what, was, now in (
                ("kind", (known.kind.value,), (support.kind.value,)),
                ("dtypes", known.dtypes, support.dtypes),
                ("constraints", known.constraints, support.constraints),
                ("library names", known.library_names, support.library_names),
            )
            if was != now
        ]
        if said:
            yield support.name, "; ".join(said)


def _words(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"
