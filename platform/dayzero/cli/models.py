"""Commands about one model: inspect, ops, plan, fetch, verify, adapt."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dayzero import app
from dayzero.cli.arguments import Degree, Devices, ForMode, Json, Model, Platform, Policy, Yes, degrees_of, ranks_of, sized
from dayzero.cli.output import ask_approval, bytes_shown, print_document, print_error, print_table, write_text
from dayzero.cli.report import checked_file, write_report
from dayzero.codec import dump
from dayzero.domain.adaptation import Lease
from dayzero.domain.canonical import plain
from dayzero.domain.planning import PlanRequest
from dayzero.domain.shards import Integrity
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError
from dayzero.settings import load_settings
from dayzero.stages.structure.document import inspect_document
from dayzero.steps import concluding, prestaging, shards, weights
from dayzero.steps import sensitive as precision
from dayzero.steps.contract import LIBRARIES, OWN_ENGINE, Bench
from dayzero.steps.documents import (
    adapt_document,
    engine_document,
    exit_code_of,
    exit_code_of_checks,
    exit_code_of_outcome,
    fetch_document,
    streamed_notes,
    verify_document,
)
from dayzero.steps.reporting import report_here
from dayzero.steps.staged import common_lines, exit_code_of_staged, known_rows, left_rows, staged_document

_ANY_BYTES = 1 << 63


def _approving(bench: Bench, yes: bool) -> Bench:
    """The bench of a command that asks at its terminal before a large transfer, or was told yes."""
    return replace(bench, approve=ask_approval, approve_below_bytes=_ANY_BYTES if yes else bench.approve_below_bytes)


def inspect(
    model: Model,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens.")] = None,
    kv_dtype: Annotated[str, typer.Option("--kv-dtype", help="Dtype of the cache, such as bfloat16 or fp8.")] = "bfloat16",
    json: Json = False,
) -> None:
    """Structure, parameters and state, from configuration and tensor headers; no weights are read."""
    work = app.local_work(load_settings(), model, "cpu")
    spec = weights.known_structure(work.bench, work.lease, kv_dtype).noun
    spec = replace(spec, known=app.knows_architecture(spec.model_type))
    document = inspect_document(spec, work.release.ref, context)
    if json:
        print_document(document)
        return
    report = prestaging.structure_report(spec, reused=False)
    print_table(report.headline, report.table, notes=report.notes)


def fetch(
    model: Model,
    out: Annotated[Path, typer.Option("--out", help="Folder for the rank files.")],
    platform: Platform = "cpu",
    tp: Degree = None,
    pp: Degree = None,
    ep: Degree = None,
    dp: Degree = None,
    ranks: Annotated[str | None, typer.Option("--ranks", help="Only these ranks of a node, as 0,1 or 0-7.")] = None,
    integrity: Annotated[Integrity, typer.Option("--integrity", help="Whether whole files are hashed as they pass.")] = (
        Integrity.SHA256
    ),
    recheck: Annotated[bool, typer.Option("--verify", help="Only compare the shards in --out with their digests.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Write one safetensors file a rank, with a manifest of digests, as the bytes come; no full copy is kept."""
    degrees = degrees_of(tp, pp, ep, dp)
    asked = ranks_of(ranks)
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out} is a file.", remedy="Name a folder with --out.")
    work = app.local_work(sized(None, degrees), model, platform)
    with bytes_shown(f"fetch {work.release.repo_id}") as progress:
        bench = replace(_approving(work.bench, yes), degrees=degrees, progress=progress)
        if recheck:
            streamed = shards.written_shards(bench, work.lease, out)
        else:
            streamed = shards.write_shards(bench, work.lease, out, ranks=asked, integrity=integrity)
    if json:
        print_document(fetch_document(streamed, out))
        return
    rows = tuple(
        {"rank": file.rank, "file": file.path, "bytes": file.size_bytes, "digest": file.digest}
        for file in streamed.manifest.files
    )
    print_table(f"{streamed.manifest.degrees}: {len(rows)} files in {out}", rows, notes=streamed_notes(streamed))


def verify(
    model: Annotated[str | None, typer.Argument(help="hf:org/name[@rev], a model directory, or a config.json.")] = None,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Platform slug; see `dayzero platform ls`.")] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="Instead: the address of an OpenAI-compatible server that already runs.")
    ] = None,
    served: Annotated[str | None, typer.Option("--model", help="With --endpoint: the name it serves the model by.")] = None,
    check: Annotated[list[str] | None, typer.Option("--check", help="Only these: operators, layers, perplexity, …")] = None,
    mode: ForMode = Mode.INFERENCE,
    policy: Policy = None,
    sensitive: Annotated[
        str | None,
        typer.Option("--sensitive", help="Find the modules that must keep their precision under int8, fp8_e4m3 or native."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File for the policy that --sensitive finds.")] = None,
    devices: Devices = None,
    tp: Degree = None,
    pp: Degree = None,
    ep: Degree = None,
    dp: Degree = None,
    cache_dtype: Annotated[
        str | None, typer.Option("--cache-dtype", help="Verify a plan whose cache is of that dtype, such as fp8 or int8.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Whose parallel ranks: dayzero, or transformers (the library's own, with --tp, …)."),
    ] = OWN_ENGINE,
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", help="Also write a report: a page (.html), or .json for `dayzero report`; again for both."),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """The four layers of verification, in this process and its isolated children; or a running server, from outside.

    A server's key is read from DAYZERO_ENDPOINT_KEY.
    """
    if endpoint is not None:
        from dayzero.cli.endpoint import verify_endpoint

        if model is not None or platform is not None or check or report:
            raise BadInputError(
                "--endpoint takes no model, platform, check or report.", remedy="Name the served model with --model."
            )
        verify_endpoint(endpoint, served, json=json)
        return
    if model is None or platform is None or served is not None:
        raise BadInputError("verify needs a model and a platform.", remedy="Give MODEL and --platform, or --endpoint URL.")
    degrees = degrees_of(tp, pp, ep, dp)
    written = [checked_file(path) for path in report or ()]
    settings = sized(devices, degrees)
    followed = None if policy is None else app.policy_from(policy)
    work = app.local_work(settings, model, platform, mode=mode, policy=followed)
    bench = replace(_approving(work.bench, yes), degrees=degrees, engine=engine)
    if cache_dtype is not None:
        bench = replace(bench, request=PlanRequest(cache_dtypes=(cache_dtype,)))
    app.tell(settings, work)
    if engine != OWN_ENGINE:
        _verify_library(bench, work.lease, json)
    if sensitive is not None:
        raise typer.Exit(_find_sensitive(bench, work.lease, sensitive, out, json))
    for step in app.verification_steps(tuple(check or ()), mode):
        told = app.run_step(bench, work.lease, step)
        if not json:
            print_table(f"{told.step}: {told.headline}", told.table, notes=told.notes)
    entry = concluding.entry_of(bench, work.lease)
    for path in written:
        write_report(report_here(bench, work.lease, entry), path)
    if json:
        print_document(verify_document(entry))
    else:
        print_table(f"{entry.correctness.value}: {entry.reason}", ())
    raise typer.Exit(exit_code_of(entry))


def _verify_library(bench: Bench, lease: Lease, json: bool) -> None:
    """The parallel ranks of a library against one process of it; ends the command."""
    if bench.engine not in LIBRARIES or bench.degrees is None or bench.degrees.world < 2:
        raise BadInputError(
            f"--engine {bench.engine} needs one of {', '.join(LIBRARIES)} and a degree above 1.",
            remedy="Write --engine transformers with --tp 2, --pp 2 or --tp 2 --ep 2.",
        )
    reports = [app.run_step(bench, lease, step) for step in app.library_steps()]
    checks = tuple(check for check in bench.ledger.checks(lease.adaptation_id) if check.check.startswith("parallel."))
    if json:
        print_document(engine_document(bench.engine, str(bench.degrees), checks, reports[-1]))
    else:
        print_table(f"{reports[-1].step}: {reports[-1].headline}", reports[-1].table, notes=reports[-1].notes)
    raise typer.Exit(exit_code_of_checks(checks))


def _find_sensitive(bench: Bench, lease: Lease, scheme: str, out: Path | None, json: bool) -> int:
    """Search, show, and write the policy; the exit code."""
    for step in app.steps_before_checks():
        app.run_step(bench, lease, step)
    searched = precision.find_sensitive(bench, lease, scheme)
    report = precision.sensitive_report(searched)
    found = searched.observed
    if json:
        print_document({"schema": "dayzero.sensitive/1", "sensitive": plain(found)})
    else:
        print_table(report.headline, report.table)
    if out is not None and found.policy is not None:
        write_text(out, dump(found.policy).decode())
    return 0 if found.policy is not None else 1


def adapt(
    model: Model,
    platform: Platform,
    no_server: Annotated[bool, typer.Option("--no-server", help="Run everything in this process.")] = False,
    mode: ForMode = Mode.INFERENCE,
    policy: Policy = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """The whole pipeline for one model, recorded in the database; with servers, `dayzero up` does the work."""
    settings = load_settings(**({"approve_below_bytes": _ANY_BYTES} if yes else {}))
    run = app.adapt_here if no_server else app.adapt_by_motor
    outcome = run(settings, model, platform, mode, None if policy is None else app.policy_from(policy))
    if json:
        print_document(adapt_document(outcome))
    else:
        print_table(f"{outcome.adaptation.state.value}: {outcome.reason}", concluding.entry_rows(outcome.entry))
    if outcome.error is not None:
        print_error(outcome.error)
    raise typer.Exit(exit_code_of_outcome(outcome))


def announce(
    config: Annotated[Path, typer.Argument(help="The config.json of a model that has no weights yet.")],
    platform: Annotated[
        list[str] | None, typer.Option("--platform", "-p", help="For these platforms; default: DAYZERO_PLATFORMS.")
    ] = None,
    later: Annotated[bool, typer.Option("--later", help="Only record it; a running `dayzero up` pre-stages it.")] = False,
    json: Json = False,
) -> None:
    """Pre-stage an architecture before its weights: what is known on each platform, and what is left for the day."""
    told = app.announce(load_settings(), config, tuple(platform or ()), later=later)
    if json:
        print_document(
            {
                "schema": "dayzero.announce/1",
                "model": str(told.release.ref),
                "release": told.recorded.release_id,
                "new": told.recorded.new,
                "adaptations": list(told.recorded.adaptations),
                "platforms": [staged_document(one) for one in told.staged],
            }
        )
    elif later:
        made = told.recorded.adaptations
        said = f"{len(made)} pre-stages requested" if made else "nothing new to pre-stage"
        print_table(f"{told.release.ref} is announced: {said}", [{"adaptation": one} for one in made])
    else:
        print_table(str(told.release.ref), (), notes=common_lines(told.staged[0].found) if told.staged else ())
        print_table("Known before the weights", known_rows(told.staged))
        print_table("Left for the day", left_rows(told.staged))
    if told.staged:
        raise typer.Exit(exit_code_of_staged(told.staged))
