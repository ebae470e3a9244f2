"""dayzero store: the releases that this site holds."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dayzero import app as work
from dayzero.cli.arguments import Json, Yes
from dayzero.cli.output import ask_approval, bytes_shown, print_document, print_table, visible
from dayzero.domain.parcels import Moved
from dayzero.errors import ExitCode
from dayzero.settings import load_settings
from dayzero.steps.storing import moved_document, store_add_document, store_document, store_evict_document

app = typer.Typer(help="Releases that this site holds, each file once, for all who need them.", no_args_is_help=True)

_ANY_BYTES = 1 << 63


@app.callback()
def store() -> None:
    """Releases that this site holds, each file once, for all who need them."""


@app.command("ls")
def ls(json: Json = False) -> None:
    """What is held, the most recently used first, and what it takes."""
    use, listed = work.list_store(load_settings())
    if json:
        print_document(store_document(use, listed))
        return
    rows = tuple(
        {
            "release": ", ".join(one.release.names),
            "content": one.release.content_id[:12],
            "bytes": one.held_bytes,
            "files": len(one.release.wanted),
            "missing": len(one.release.missing),
            "used": datetime.fromtimestamp(one.used_at_s, UTC).replace(microsecond=0),
            "in use": one.pinned,
        }
        for one in listed
    )
    limit = "no limit" if use.limit_bytes is None else f"at most {use.limit_bytes:,}"
    notes = [f"{use.partial_bytes:,} bytes are downloads on their way"] if use.partial_bytes else []
    if use.unreferenced_bytes:
        notes.append(f"{use.unreferenced_bytes:,} bytes belong to no release: `dayzero store gc` takes them away")
    print_table(f"{use.release_count} releases, {use.used_bytes:,} bytes ({limit})", rows, notes=notes)


@app.command()
def add(
    model: Annotated[str, typer.Argument(help="hf:org/name[@rev], or a model directory.")],
    name: Annotated[
        str | None, typer.Option("--as", help="org/name that a directory is served as; default: local/DIRECTORY.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also weights that the checkpoint does not need, such as other formats.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Bring a release into the store; `dayzero hub serve` serves it, and `adapt` and `fetch` take it from there."""
    settings = load_settings(**({"approve_below_bytes": _ANY_BYTES} if yes else {}))
    with bytes_shown(f"store {model}") as progress:
        stored = work.add_to_store(
            settings, model, repo_id=name, everything=everything, approve=ask_approval, progress=progress, tell=_tell
        )
    if json:
        print_document(store_add_document(stored))
        return
    size = sum(file.size_bytes for file in stored.files)
    print_table(
        f"{stored.release.repo_id} at {stored.release.revision[:12]}: {len(stored.files)} files, {size:,} bytes,"
        f" {stored.fetched_bytes:,} of them came now",
        (),
    )


@app.command()
def verify(json: Json = False) -> None:
    """Read every object again. Exit code 1: one was damaged (it is set aside), or a release lacks one."""
    with bytes_shown("store verify") as progress:
        checked = work.check_stored(load_settings(), progress)
    if json:
        print_document({"schema": "dayzero.store-check/1", "checked": checked})
    else:
        wrong = [f"{name} had other bytes and is set aside in quarantine/" for name in checked.damaged]
        print_table(
            f"{checked.object_count} objects, {checked.object_bytes:,} bytes, {len(checked.damaged)} of them damaged",
            (),
            notes=[*wrong, *checked.incomplete],
        )
    if checked.damaged or checked.incomplete:
        raise typer.Exit(int(ExitCode.VERDICT_FAIL))


@app.command()
def evict(
    names: Annotated[list[str], typer.Argument(metavar="RELEASE...", help="org/name, or the beginning of a content id.")],
    json: Json = False,
) -> None:
    """Let releases go, with the files that no other release has. Exit code 3: some are in use and stay."""
    gone, in_use = work.evict_stored(load_settings(), tuple(names), _tell)
    if json:
        print_document(store_evict_document(gone, in_use))
    else:
        rows = [{"release": ", ".join(one.names), "content": one.content_id[:12], "freed": one.freed_bytes} for one in gone]
        print_table(f"{len(gone)} evicted", rows, notes=[f"{content_id[:12]} is in use and stays" for content_id in in_use])
    if in_use:
        raise typer.Exit(int(ExitCode.NOT_MEASURED))


@app.command()
def gc(json: Json = False) -> None:
    """Take away objects that no release refers to, and downloads that nobody goes on with; quarantine/ stays."""
    swept = work.sweep_store(load_settings())
    if json:
        print_document({"schema": "dayzero.store-gc/1", "swept": swept})
    else:
        print_table(f"{swept.object_count} objects taken away, {swept.freed_bytes:,} bytes are free again", ())


@app.command()
def put(
    what: Annotated[str, typer.Argument(help="A folder of written shards, or a release of the store (org/name, content id).")],
    url: Annotated[str, typer.Argument(help="Where to: s3://bucket/folder, a folder, or another of fsspec's URLs.")],
    json: Json = False,
) -> None:
    """Put shards or a release to a destination; the file that says it is whole comes last."""
    with bytes_shown(f"put {what}") as progress:
        moved = work.put_at(load_settings(), what, url, progress)
    _show(moved, "dayzero.store-put/1", json)


@app.command()
def take(
    url: Annotated[str, typer.Argument(help="Where `dayzero store put` put it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files; what is there and right is kept.")],
    json: Json = False,
) -> None:
    """Take what was put to a destination; every file is checked against its sha256 before it gets its name."""
    with bytes_shown(f"take {url}") as progress:
        moved = work.take_from(url, out, progress)
    _show(moved, "dayzero.store-take/1", json)


def _show(moved: Moved, schema: str, json: bool) -> None:
    if json:
        print_document(moved_document(moved, schema))
        return
    print_table(
        f"{len(moved.parcel.files)} files, {moved.parcel.size_bytes:,} bytes in {moved.place}: {moved.moved_bytes:,} moved,"
        f" {moved.kept_bytes:,} were there",
        (),
    )


def _tell(said: str) -> None:
    typer.echo(visible(said), err=True)
