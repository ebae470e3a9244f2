"""Commands about platforms."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.cli.opening import open_plane
from dayzero.cli.output import print_document, print_line, print_table, progress_shown
from dayzero.domain.canonical import plain
from dayzero.domain.findings import Severity
from dayzero.domain.manifests import CollectiveFact, DtypeFact, ManifestDifference
from dayzero.domain.operators import OperatorManifest, SupportKind
from dayzero.domain.platforms import Figure, PlatformProfile
from dayzero.domain.verdict import Verdict
from dayzero.errors import ExitCode
from dayzero.settings import load_settings
from dayzero.stages.memory.error import error_words
from dayzero.stages.platforms.probing import summary_of
from dayzero.stages.platforms.sampled import samples_of

app = typer.Typer(help="Platforms: their figures with sources, and what they offer.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_REASONS = 30


@app.command()
def ls(json: Json = False) -> None:
    """Every known platform."""
    profiles = dayzero.profiles(load_settings())
    if json:
        print_document({"schema": "dayzero.platforms/1", "platforms": [plain(profile) for profile in profiles.values()]})
        return
    rows = [
        {"slug": profile.slug, "title": profile.title, "memory": _figure(profile.memory_bytes)} for profile in profiles.values()
    ]
    print_table("platforms", rows)


@app.command()
def show(slug: Annotated[str, typer.Argument(help="Platform slug.")], json: Json = False) -> None:
    """One platform's figures, each with its source and who says it, and what it offers as far as it was told or imported."""
    settings = load_settings()
    profile = dayzero.known_platform(settings, slug)
    record = dayzero.recorded_of(settings, profile.slug)
    told, error = record.offered, record.memory_error
    if json:
        document = {"schema": "dayzero.platform/1", "platform": plain(profile), "figures_digest": profile.figures_digest}
        offered = {"manifest": plain(told[0]), "stack": plain(told[1])} if told else {"manifest": None, "stack": None}
        print_document(document | offered | {"memory_model_error": plain(error)})
        return
    absent = () if profile.torch_device == "cpu" else tuple(f"nobody publishes {name}" for name in profile.unpublished)
    notes = (*filter(None, (profile.notes,)), *absent, f"error of predicted memory: {error_words(error)}")
    print_table(f"{profile.slug}: {profile.title}", _figures(profile), notes=notes)
    if told is None:
        print_table("what it offers: nobody has told yet", [], notes=(f"dayzero platform import {profile.slug} PACKAGE",))
    else:
        _print_manifest(told[0])


@app.command()
def gaps(context: typer.Context, slug: Annotated[str, typer.Argument(help="Platform slug.")], json: Json = False) -> None:
    """Operators that a platform lacks, the most worthwhile to bridge first: by the models that lack nothing else."""
    profile = dayzero.known_platform(load_settings(), slug)
    with open_plane(context) as plane:
        found = dayzero.gaps_on(plane, profile.slug)
    if json:
        print_document({"schema": "dayzero.gaps/1", "platform": profile.slug, "gaps": plain(found)})
        return
    rows = [
        {
            "operator": gap.operator,
            "models": len(gap.models),
            "unlocked alone": len(gap.unlocked),
            "first": ", ".join(gap.models[:3]),
            "owner": gap.failure.owner or "nobody",
            "ticket": gap.failure.ticket or "",
            "failure": gap.failure.signature[:8],
        }
        for gap in found
    ]
    print_table(
        f"{len(rows)} gaps of {profile.slug}", rows, notes=("say who sees to one: dayzero failures explain FAILURE --owner …",)
    )


@app.command()
def new(
    slug: Annotated[str, typer.Argument(help="A name for it: lower-case letters, digits and dashes.")],
    device: Annotated[str, typer.Option("--device", help="The device type that torch uses for it.")] = "cuda",
    out: Annotated[Path | None, typer.Option("--out", help="The file (default: SLUG.toml among your profiles).")] = None,
) -> None:
    """Write a commented profile to fill in for a machine of your own."""
    path = dayzero.new_platform(load_settings(), slug, device, out)
    print_line(f"{path}: fill it in, then dayzero platform check {path}")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A platform profile (TOML).")], json: Json = False) -> None:
    """Say what is wrong with a profile, and what is still missing in it. Exit code 1: something looks wrong."""
    profile, findings = dayzero.check_platform(load_settings(), file)
    wrong = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if json:
        print_document({"schema": "dayzero.platform-check/1", "platform": plain(profile), "findings": plain(findings)})
    else:
        notes = tuple(finding.message for finding in findings)
        looks = f"{len(wrong)} of its figures look wrong" if wrong else "nothing looks wrong"
        print_table(f"{profile.slug}: it can be used; {looks}, {len(findings) - len(wrong)} are missing", [], notes=notes)
    if wrong:
        raise typer.Exit(ExitCode.VERDICT_FAIL)


@app.command(name="import")
def import_(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(help="Platform slug.")],
    package: Annotated[
        str, typer.Argument(help="NAME, NAME==VERSION, the path of a wheel, or `torch` (the one that is installed here).")
    ],
    diff: Annotated[str | None, typer.Option("--diff", help="Another version: show what changed since.")] = None,
    json: Json = False,
) -> None:
    """What a published package declares for a platform. It is read as data: nothing of it is installed or executed."""
    settings = load_settings()
    profile = dayzero.known_platform(settings, slug)
    imported = dayzero.read_import(settings, profile, package, diff)
    with open_plane(context) as plane:
        missing = dayzero.record_import(plane.ledger, profile, imported.manifest)
    if json:
        print_document({"schema": "dayzero.import/1", "manifest": plain(imported.manifest),
                        "difference": plain(imported.difference), "missing": list(missing)})  # fmt: skip
        return
    _print_manifest(imported.manifest, missing)
    if imported.difference is not None:
        _print_difference(imported.difference)


@app.command()
def probe(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(help="Platform slug; its device must be here.")] = "cpu",
    operator: Annotated[
        list[str] | None, typer.Option("--operator", help="Only operators like this (shell pattern; may be repeated).")
    ] = None,
    budget: Annotated[float | None, typer.Option("--budget", help="Seconds to spend; what is not reached is named.")] = None,
    record: Annotated[bool, typer.Option(help="Record the measured manifest as what the platform offers.")] = True,
    json: Json = False,
) -> None:
    """Run every operator in every dtype on this host's device, compare it with float64, time it, and measure collectives."""
    settings = load_settings()
    ask = dayzero.ProbeRequest(tuple(operator or ("aten.*",)), budget)
    with progress_shown() as told:
        manifest, stack = dayzero.probe_platform(settings, slug, ask, told)
    if record and operator is None:
        with dayzero.told_to(settings, lambda: open_plane(context)) as ledger:
            ledger.put_manifest(manifest, stack)
    if json:
        print_document({"schema": "dayzero.manifest/1", "manifest": plain(manifest), "stack": plain(stack)})
        return
    summary = summary_of(manifest)
    rows = [{"verdict": verdict, "operators × dtypes": count} for verdict, count in summary.verdicts.items()]
    headline = f"{manifest.provider} {manifest.version} on {slug}: {summary.operators} operators, {summary.pairs} with dtypes"
    print_table(headline, rows, notes=(manifest.source, *manifest.unknown))
    print_table("numerics worse than their limit", [_worse(name, fact) for name, fact in summary.worse])
    print_table(
        "not run, and why", [{"why": why, "operators × dtypes": count} for why, count in summary.not_run.items()][:_REASONS]
    )
    print_table("collectives", [_collective(fact) for fact in manifest.collectives])


def _worse(name: str, fact: DtypeFact) -> dict[str, object]:
    return {"operator": name, "dtype": fact.dtype, "inputs": fact.distribution, "error": fact.worst_error,
            "limit": fact.limit, "why": fact.why}  # fmt: skip


def _collective(fact: CollectiveFact) -> dict[str, object]:
    return {"operation": fact.operation, "backend": fact.backend, "ranks": fact.ranks, "bytes": fact.size_bytes,
            "time s": fact.time_s, "bytes/s": int(fact.bytes_per_s)}  # fmt: skip


def _print_manifest(manifest: OperatorManifest, missing: tuple[str, ...] = ()) -> None:
    graph = [support for support in manifest.operators if support.name.startswith("aten.")]
    kernels = [support for support in manifest.operators if not support.name.startswith("aten.")]
    counts = {kind: sum(support.kind is kind for support in graph) for kind in SupportKind}
    rows = [{"what": f"graph operators, {kind.value}", "count": count} for kind, count in counts.items() if count]
    rows += [
        {"what": what, "count": count}
        for what, count in (
            ("kernels of the taxonomy", len(kernels)),
            ("functions without a name in the taxonomy", len(manifest.unnamed)),
            ("excluded", len(manifest.excluded)),
            ("decompositions", len(manifest.decompositions)),
            *((f"calls of models on drawn inputs, {verdict}", number) for verdict, number in samples_of(manifest).items()),
        )
        if count
    ]
    wrong = (
        f"{fact.operator} ({', '.join(fact.dtypes)}; {fact.shape_class}) on {fact.distribution} inputs: {fact.why}"
        for fact in manifest.sampled
        if fact.verdict is Verdict.FAIL
    )
    notes = (*wrong, *(f"not known: {text}" for text in manifest.unknown), *missing, *filter(None, (manifest.source,)))
    print_table(f"{manifest.provider} {manifest.version} on {manifest.platform}", rows, notes=notes)
    if kernels:
        print_table("kernels", [{"kernel": kernel.name, "by": ", ".join(kernel.library_names)} for kernel in kernels])
    if manifest.excluded:
        print_table("excluded", [{"operator": name, "why": why} for name, why in sorted(manifest.excluded.items())])
    for engine in manifest.engines:
        lists = (("architectures", engine.architectures), ("quantization", engine.quantization_methods),
                 ("attention", engine.attention_backends))  # fmt: skip
        rows = [{"what": what, "count": len(names), "names": ", ".join(names)} for what, names in lists]
        print_table(f"{engine.engine} {engine.version}{_plugin(engine.plugin_of)}", rows)


def _plugin(of: str | None) -> str:
    return f" (a plugin of {of})" if of else ""


def _print_difference(changed: ManifestDifference) -> None:
    rows = [
        {"list": name, "change": sign, "count": len(names), "names": ", ".join(names)}
        for name, turnover in changed.lists.items()
        for sign, names in (("gone", turnover.removed), ("new", turnover.added))
        if names
    ]
    rows += [
        {"list": "operators", "change": "other", "count": 1, "names": f"{name}: {what}"}
        for name, what in sorted(changed.changed.items())
    ]
    print_table(f"{changed.provider}: {changed.before} → {changed.after}", rows)


def _figures(profile: PlatformProfile) -> list[dict[str, str | int | float | None]]:
    named: dict[str, Figure | None] = {
        "memory": profile.memory_bytes,
        "memory bandwidth": profile.memory_bandwidth_bytes_per_s,
        **{f"rate {dtype}": figure for dtype, figure in sorted(profile.flops_per_s.items())},
        **{f"link {domain.name} × {domain.devices}": domain.bandwidth_bytes_per_s for domain in profile.link_domains},
        "devices a node": profile.devices_per_node,
        "network": profile.nic_bytes_per_s,
        "host link": profile.host_link_bytes_per_s,
        **({"reserve of a device": profile.reserve_bytes} if profile.reserve_bytes else {}),
    }
    rows: list[dict[str, str | int | float | None]] = [
        {
            "figure": name,
            "value": _figure(figure),
            "status": figure.status.value if figure else "",
            "source": figure.source if figure else "",
        }
        for name, figure in named.items()
    ]
    facts = {"plugin of torch": profile.plugin_package, "collectives": profile.collectives}
    facts |= {f"engine {engine}": fact for engine, fact in profile.engines.items()}
    facts |= {f"arithmetic in {dtype}": fact for dtype, fact in profile.unsupported_dtypes.items()}
    return rows + [
        {"figure": name, "value": fact.value, "status": fact.status.value, "source": fact.source}
        for name, fact in facts.items()
        if fact is not None
    ]


def _figure(figure: Figure | None) -> str:
    return "nobody publishes it" if figure is None else f"{figure.value:.4g} {figure.unit}"
