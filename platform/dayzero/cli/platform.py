"""Commands about platforms."""

from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import plain
from dayzero.domain.platforms import Figure, PlatformProfile
from dayzero.settings import load_settings

app = typer.Typer(help="Platforms: their figures with sources, and what they offer.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


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
    """One platform's figures, each with its source and who says it."""
    profile = dayzero.known_platform(load_settings(), slug)
    if json:
        print_document({"schema": "dayzero.platform/1", "platform": plain(profile), "figures_digest": profile.figures_digest})
        return
    print_table(f"{profile.slug}: {profile.title}", _figures(profile), notes=(profile.notes,) if profile.notes else ())


@app.command()
def probe(
    slug: Annotated[str, typer.Argument(help="Platform slug; its device must be here.")] = "cpu", json: Json = False
) -> None:
    """What the installed stack offers on this host, read from its dispatcher."""
    settings = load_settings()
    manifest, stack = dayzero.probe_platform(settings, slug)
    if json:
        print_document({"schema": "dayzero.manifest/1", "manifest": plain(manifest), "stack": plain(stack)})
        return
    kinds = sorted({offered.kind.value for offered in manifest.operators})
    rows = [{"kind": kind, "operators": sum(offered.kind.value == kind for offered in manifest.operators)} for kind in kinds]
    print_table(f"{manifest.provider} {manifest.version} on {slug}: {len(manifest.operators)} operators", rows)


def _figures(profile: PlatformProfile) -> list[dict[str, str | int | float | None]]:
    named: dict[str, Figure | None] = {
        "memory": profile.memory_bytes,
        "memory bandwidth": profile.memory_bandwidth_bytes_per_s,
        **{f"rate {dtype}": figure for dtype, figure in sorted(profile.flops_per_s.items())},
        **{f"link {domain.name} × {domain.devices}": domain.bandwidth_bytes_per_s for domain in profile.link_domains},
    }
    return [
        {
            "figure": name,
            "value": _figure(figure),
            "status": figure.status.value if figure else "",
            "source": figure.source if figure else "",
        }
        for name, figure in named.items()
    ]


def _figure(figure: Figure | None) -> str:
    return "nobody publishes it" if figure is None else f"{figure.value:.4g} {figure.unit}"
