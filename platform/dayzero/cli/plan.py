"""`dayzero plan`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dayzero import app
from dayzero.cli.arguments import Degree, Json, Model, Platform, degrees_of, sized
from dayzero.cli.screen import show_plan
from dayzero.domain.planning import Objective
from dayzero.errors import BadInputError, ExitCode
from dayzero.stages.planning.asked import Asked
from dayzero.steps import explaining
from dayzero.steps.unpickling import has_headers


def plan(
    model: Model,
    platform: Platform,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="Devices there are (else as few as will do).")] = None,
    template: Annotated[str | None, typer.Option("--template", help="A named request: latency, throughput, smallest…")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of a sequence, the generated ones among them.")] = None,
    output: Annotated[int | None, typer.Option(min=1, help="Tokens that a sequence generates (default: an eighth).")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Sequences served at once.")] = None,
    rate: Annotated[float | None, typer.Option(help="New requests a second, instead of --concurrency.")] = None,
    ttft: Annotated[float | None, typer.Option(help="Seconds to the first token, at most.")] = None,
    tpot: Annotated[float | None, typer.Option(help="Seconds for each further token, at most.")] = None,
    objective: Annotated[Objective | None, typer.Option(help="What the best plan has most of.")] = None,
    cache_dtype: Annotated[list[str] | None, typer.Option(help="A cache dtype that may be taken; again for more.")] = None,
    weight_dtype: Annotated[
        list[str] | None, typer.Option(help="bfloat16, float16, fp8 or int4: weights may be converted to it; again for more.")
    ] = None,
    tokens_per_step: Annotated[int | None, typer.Option(min=1, help="Plan training: tokens of one optimizer step.")] = None,
    sequence: Annotated[int | None, typer.Option(min=1, help="Tokens of one training sequence.")] = None,
    lora_rank: Annotated[int | None, typer.Option(min=1, help="Train adapters of that rank alone.")] = None,
    what_if: Annotated[list[str] | None, typer.Option(help="A resource changed: memory=0.5x, links=2x, nodes=-1.")] = None,
    tp: Degree = None,
    pp: Degree = None,
    ep: Degree = None,
    dp: Degree = None,
    cp: Degree = None,
    etp: Degree = None,
    redundant_experts: Annotated[int | None, typer.Option(min=0, help="Second copies of busy experts, over ep ranks.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also draw memory and placement into this file.")] = None,
    launch: Annotated[str | None, typer.Option("--launch", help="Print only the script for vllm, sglang or torchrun.")] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="With --launch: of the plan with prefill apart, prefill or decode.")
    ] = None,
    json: Json = False,
) -> None:
    """Memory and parallel plan for a request, and why every other was rejected; without one, the plan that is verified."""
    asked = Asked(
        context, output, concurrency, rate, ttft, tpot, objective, tuple(cache_dtype or ()), redundant_experts, tokens_per_step,
        sequence, lora_rank, tuple(weight_dtype or ()),
    )  # fmt: skip
    if pool is not None and launch is None:
        raise BadInputError("--pool says whose script is printed.", remedy="Name the engine with --launch.")
    degrees = degrees_of(tp, pp, ep, dp, cp, etp)
    settings = sized(devices, degrees)
    work = app.local_work(settings, model, platform)
    request = app.plan_request(settings, asked, template, tuple(what_if or ()), devices_given=devices is not None)
    bench = replace(work.bench, degrees=degrees, request=request, any_devices=devices is None)
    found = explaining.explained(bench, work.lease, with_weights=has_headers(work.release))
    show_plan(found, svg=svg, launch=launch, pool=pool, json=json)
    if found.report.plan is None:
        raise typer.Exit(ExitCode.VERDICT_FAIL)
