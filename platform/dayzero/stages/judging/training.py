"""Verdicts on fine-tuning: loss curve, gradients, and what moved, against the same in higher precision and in native dtype."""

from dayzero.domain.observations import CheckName
from dayzero.domain.observed_training import BackwardError, GradientError, Scaling, TrainingObserved, TrainingRun
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.precision import training as limits
from dayzero.stages.precision.limits import FACTOR_MEAN, Line

NAMES = {"full": CheckName.FINE_TUNE_TRAINING, "lora": CheckName.FINE_TUNE_LORA}
"""The check of each method."""
NAMED = 3


def training_checks(
    observed: TrainingObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[tuple[Check, ...], tuple[Culprit, ...]]:
    """One check a method, and the modules whose own backward is wrong; a method that was not asked for is not_run."""
    culprits = backward_culprits(observed)
    runs = {run.method: run for run in observed.runs}
    checks = tuple(
        _check(observed, runs[method], culprits, rung, evidence)
        if method in runs
        else _without_run(name, rung, f"{method} was not asked for", evidence)
        for method, name in NAMES.items()
    )
    return checks, tuple(culprit for culprit, _why in culprits)


def backward_culprits(observed: TrainingObserved) -> tuple[tuple[Culprit, str], ...]:
    """Layers whose own backward stands out, the last first as gradients flow, each with its guilty module and why."""
    dtype = observed.native_dtype
    wrong: dict[int, list[BackwardError]] = {}
    for error in observed.backward:
        if limits.backward_line(error, dtype).stands_out:
            wrong.setdefault(error.layer_index, []).append(error)
    return tuple(_accused(observed, index, wrong[index]) for index in sorted(wrong, reverse=True))


def _accused(observed: TrainingObserved, index: int, errors: list[BackwardError]) -> tuple[Culprit, str]:
    dtype = observed.native_dtype
    inner = limits.guilty_backward(observed.suspects, index, dtype)
    shown = inner or max(errors, key=lambda error: error.target.relative or float("inf"))
    line = limits.backward_line(shown, dtype)
    alone = "" if inner else ", which no module shows alone"
    why = f"the backward of {shown.module} is wrong{alone}: the gradient of its {shown.gradient}: {line.why}"
    return Culprit(index, shown.module, "backward", 1.0 if line.measured is None else line.measured, line.tolerance), why


def _check(
    observed: TrainingObserved,
    run: TrainingRun,
    culprits: tuple[tuple[Culprit, str], ...],
    rung: str,
    evidence: tuple[str, ...],
) -> Check:
    whole = run.gradients[0]
    line = limits.direction_line(whole.target, whole.native, observed.native_dtype)
    verdict, reason = _verdict(observed, run, culprits)
    worst = worst_module(run.gradients, observed.native_dtype)
    return Check(
        CheckLayer.END_TO_END,
        NAMES[run.method].value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=line.measured,
        tolerance=line.tolerance,
        unit="relative error of the whole gradient",
        n=run.trained_parameters,
        evidence=evidence,
        numbers={
            "steps": run.steps,
            "tokens": observed.tokens,
            "learning_rate": run.learning_rate,
            "loss_first": run.losses_target[0],
            "loss_last": run.losses_target[-1],
            "loss_last_native": run.losses_native[-1],
            "loss_last_reference": run.losses_reference[-1],
            "gradient_cosine": whole.target.cosine,
            "gradient_cosine_native": whole.native.cosine,
            "gradient_cosine_after": run.gradients_after[0].target.cosine,
            "gradient_norm_ratio": whole.target.norm_ratio,
            "worst_module": worst.module or None,
            "worst_module_error": worst.target.relative,
            "worst_module_cosine": worst.target.cosine,
            "moved": run.moved_target,
            "moved_reference": run.moved_reference,
            "layers_backward": len({error.layer_index for error in observed.backward}),
            "choices_forced": run.choices_forced,
            "choices_differing": run.choices_differing,
            "overflows": run.scaling_target.overflows if run.scaling_target else None,
            "overflows_native": run.scaling_native.overflows if run.scaling_native else None,
            "loss_scale_end": run.scaling_target.end if run.scaling_target else None,
            "target_path": observed.target_path,
            "optimizer": observed.optimizer,
        },
    )


def _verdict(observed: TrainingObserved, run: TrainingRun, culprits: tuple[tuple[Culprit, str], ...]) -> tuple[Verdict, str]:
    doubt = _doubt(observed, run)
    if doubt:
        return Verdict.ERROR, doubt
    if culprits:
        rest = f"; and {len(culprits) - NAMED} more" if len(culprits) > NAMED else ""
        return Verdict.FAIL, "; ".join(why for _culprit, why in culprits[:NAMED]) + rest
    wrong = _wrong(observed, run)
    if wrong:
        return Verdict.FAIL, wrong
    if run.identical:
        return Verdict.NOT_RUN, "the target ran the reference's own path: equal bit for bit says nothing"
    whole = run.gradients[0].target
    scale = f", {run.scaling_target.overflows} overflows" if run.scaling_target else ""
    return Verdict.PASS, (
        f"{run.steps} steps ({run.method}): loss {run.losses_target[0]:.4g} to {run.losses_target[-1]:.4g}, in "
        f"{observed.reference_dtype} to {run.losses_reference[-1]:.4g}; cosine of the gradient {whole.cosine:.6f}{scale}"
    )


def _doubt(observed: TrainingObserved, run: TrainingRun) -> str | None:
    """Why the references say nothing about the target, or None."""
    dtype = observed.native_dtype
    references = (*run.losses_reference, *run.losses_native)
    if any(loss is None for loss in references) or len(references) < 4:
        return "the references' own losses are not finite"
    if run.scaling_native and run.scaling_native.gave_up:
        return f"no loss scale makes the {dtype} reference's own gradients finite: {_scale(run.scaling_native)}"
    for moment, gradients in (("first", run.gradients), ("last", run.gradients_after)):
        cosine = gradients[0].native.cosine
        if gradients[0].native.nonfinite or cosine is None or cosine < limits.COSINE_GRADIENT[dtype]:
            shown = "not finite" if cosine is None else f"{cosine:.4f}"
            return (
                f"the {dtype} reference's own {moment} gradient is far from {observed.reference_dtype}: cosine {shown}, at "
                f"least {limits.COSINE_GRADIENT[dtype]}"
            )
    first, last = run.losses_reference[0], run.losses_reference[-1]
    if first is None or last is None or last >= first or not run.moved_reference:
        return f"the reference itself does not learn: loss {first:.4g} to {last:.4g} in {run.steps} steps"
    return None


def _wrong(observed: TrainingObserved, run: TrainingRun) -> str | None:
    """What of the run is wrong on the target, worst first, or None."""
    dtype = observed.native_dtype
    if run.scaling_target and run.scaling_target.gave_up:
        return f"no loss scale makes the target's gradients finite: {_scale(run.scaling_target)}"
    if run.without_gradient:
        return f"{_some(run.without_gradient)} got no gradient on the target"
    if run.still:
        return f"{_some(run.still)} did not move on the target"
    strayed = _strayed(run, dtype)
    if strayed:
        return strayed
    _step, curve = limits.loss_line(run.losses_reference, run.losses_native, run.losses_target, dtype)
    if curve.stands_out:
        return f"the loss curve leaves the reference's: {curve.why}"
    return _unlike_movement(run)


def _strayed(run: TrainingRun, dtype: str) -> str | None:
    """At which moment the whole gradient strays, with its worst module, or None."""
    moments = {"first": run.gradients, "last": run.gradients_after}
    lines = {name: limits.direction_line(rows[0].target, rows[0].native, dtype) for name, rows in moments.items()}
    line = limits.straying(tuple(lines.values()))
    if line is None:
        return None
    moment = next(name for name, one in lines.items() if one is line)
    worst = worst_module(moments[moment], dtype)
    own = limits.direction_line(worst.target, worst.native, dtype)
    return f"the {moment} gradient is off: {line.why}; worst in {worst.module}: {own.why}"


def _unlike_movement(run: TrainingRun) -> str | None:
    """Whether the target's parameters went much further or less far than the reference's."""
    if run.moved_target is None or not run.moved_reference:
        return "the target's parameters are not finite"
    share = run.moved_target / run.moved_reference
    if 1 / FACTOR_MEAN <= share <= FACTOR_MEAN:
        return None
    return f"parameters moved {share:.3g} times as far as in the reference, between 0.5 and 2 allowed"


def worst_module(gradients: tuple[GradientError, ...], dtype: str) -> GradientError:
    """The module whose gradient is worst by its own tolerance; the whole where there is no other."""

    def excess(error: GradientError) -> float:
        line: Line = limits.direction_line(error.target, error.native, dtype)
        return float("inf") if line.measured is None else line.measured / line.tolerance

    return max(gradients[1:] or gradients, key=excess)


def _scale(scaling: Scaling) -> str:
    return f"{scaling.overflows} overflows from {scaling.start:g} to {scaling.end:g}"


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _without_run(name: CheckName, rung: str, reason: str, evidence: tuple[str, ...]) -> Check:
    return Check(CheckLayer.END_TO_END, name.value, rung, Verdict.NOT_RUN, Grade.MEASURED, reason, evidence=evidence)
