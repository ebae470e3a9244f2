"""Verdicts on single operators."""

from dayzero.domain.observations import CheckName, OperatorError, OperatorErrors
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.judging.naming import first_named, layer_index_of
from dayzero.stages.precision import limits as precision


def operators_check(observed: OperatorErrors, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Culprit, ...]]:
    """Every operator that could be compared, against float64; operators that could not are counted, never passed."""
    compared = [row for row in observed.operators if row.reference is not None]
    wrong = [row for row in compared if precision.operator_stands_out(row)]
    shares = [row.share_within for row in compared if row.share_within is not None]
    unknown = [row for row in observed.operators if row.reference is None and row.operator in _replacements(observed)]
    missing = [row for row in observed.operators if row.missing]
    left_out = len(observed.operators) - len(compared)
    if wrong:
        verdict = Verdict.FAIL
        reason = f"{len({row.operator for row in wrong})} operators miss float64: {first_named([_told(row) for row in wrong])}"
    elif missing:
        told = {row.operator: f"{row.operator} in {row.module or 'the model'}: {row.why}" for row in missing}
        verdict = Verdict.ERROR
        reason = f"{len(told)} operators do not run on the target: {first_named(list(told.values()))}"
    elif not compared:
        verdict, reason = Verdict.NOT_RUN, "no operator of the run can be compared with float64"
    elif unknown:
        verdict, reason = Verdict.ERROR, f"{unknown[0].operator} could not be compared: {unknown[0].why}"
    else:
        verdict = Verdict.PASS
        reason = f"{len(compared)} distinct operator calls agree with float64; {left_out} cannot be compared"
    check = Check(
        CheckLayer.PRECISION,
        CheckName.OPERATORS_FLOAT64.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=min(shares, default=None),
        tolerance=precision.SHARE_WITHIN,
        unit="share of elements within 1e-3",
        n=len(compared),
        evidence=evidence,
        numbers={
            "compared": len(compared),
            "not_comparable": left_out,
            "missing": ", ".join(sorted({row.operator for row in missing})) or None,
            "elements": sum(row.n for row in compared),
            "dtype": observed.dtype,
            "target_path": observed.target_path,
        },
    )
    culprits = {row.operator: row for row in reversed(wrong)}
    return check, tuple(_operator_culprit(row) for row in reversed(culprits.values()))


def _replacements(observed: OperatorErrors) -> set[str]:
    """Operators that no library ships: those of plugins."""
    return {row.operator for row in observed.operators if observed.custom_operators and not row.operator.startswith("aten.")}


def _told(row: OperatorError) -> str:
    figure = "an integer result differs"
    if row.share_within is not None:
        figure = f"{row.share_within:.4f} of the elements within 1e-3, {precision.SHARE_WITHIN:g} required"
    return f"{row.operator} in {row.module or 'the model'} ({figure}, n={row.n})"


def _operator_culprit(row: OperatorError) -> Culprit:
    error = 1.0 - row.share_within if row.share_within is not None else 1.0
    return Culprit(layer_index_of(row.module), row.module, row.operator, error, 1.0 - precision.SHARE_WITHIN)
