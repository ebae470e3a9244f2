"""Verdict on the layers of towers: each tower's as the language model's are judged, the worst of them for all."""

from dataclasses import replace

from dayzero.domain.observations import CheckName
from dayzero.domain.observed_towers import TowerErrors, TowersObserved
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict, worst_of
from dayzero.stages.judging.parts import layers_check

NO_TOWER = "the modelling library builds no tower for this model"


def towers_check(observed: TowersObserved, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Culprit, ...]]:
    """One check for all towers; not run while the layers of any were not."""
    judged = [(tower, *_tower(tower, rung, evidence)) for tower in observed.towers]
    if not judged:
        return _not_run(NO_TOWER, rung, evidence), ()
    worst = worst_of(tuple(check for _, check, _ in judged))
    told = "; ".join(f"{tower.path}: {check.reason}" for tower, check, _ in judged)
    check = replace(
        worst,
        check=CheckName.LAYERS_TOWERS.value,
        reason=told,
        n=sum(check.n or 0 for _, check, _ in judged),
        numbers={**worst.numbers, "towers": len(judged)},
    )
    return check, tuple(culprit for _, _, culprits in judged for culprit in culprits)


def _tower(tower: TowerErrors, rung: str, evidence: tuple[str, ...]) -> tuple[Check, tuple[Culprit, ...]]:
    if tower.layers is None:
        return _not_run(tower.unable or "its layers were not run", rung, evidence), ()
    check, culprits = layers_check(tower.layers, rung, evidence)
    return replace(check, reason=f"{check.reason} ({tower.layers.token_source})"), culprits


def _not_run(reason: str, rung: str, evidence: tuple[str, ...]) -> Check:
    return Check(
        CheckLayer.PRECISION,
        CheckName.LAYERS_TOWERS.value,
        rung,
        Verdict.NOT_RUN,
        Grade.MEASURED,
        reason,
        evidence=evidence,
    )
