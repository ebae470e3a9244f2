"""Which stack an adaptation's reference and target run in: chosen once, found again by every step and on every host."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.results import result_key
from dayzero.domain.stacks import INSTALLED, StackChoice, StackRecipe
from dayzero.ports.running import Runner, Stacks, Tracer
from dayzero.stages.stacks.choosing import choose, tried_sentence
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import keep

STACK = "stack"
"""The stage whose result is an adaptation's StackChoice."""


@dataclass(frozen=True, slots=True)
class Stacked:
    """What a stack brings to tracing: its library's name, a tracer (made when it is asked for), and what else was tried (a
    text to put behind a refusal, empty where there was nothing to choose from)."""

    library: str | None
    tracer: Callable[[], Tracer]
    said: str = ""


def stacked(bench: Bench, lease: Lease, config: str) -> Stacked:
    """The stack for a configuration; the first of all where none knows its type: what it refuses, it says.

    A host without locks of its own takes what another host chose for the adaptation: the lock travels with its results.
    """
    if bench.stacks is None:
        return Stacked(bench.library, lambda: bench.tracer)
    stacks = bench.stacks
    recipes = tuple(stacks.recipes(bench.ledger.adaptation(lease.adaptation_id).platform))
    if recipes == (INSTALLED,):
        return _in(bench, stacks, _linked(bench, lease))
    choice = _choice(bench, lease, stacks, recipes, _model_type(config))
    bench.stacked[lease] = recipe_of(choice)
    said = "" if choice.recipe else f" Tried: {tried_sentence(choice)}."
    return _in(bench, stacks, choice.recipe or recipes[0], said)


def _in(bench: Bench, stacks: Stacks, recipe: StackRecipe, said: str = "") -> Stacked:
    if recipe == INSTALLED:
        return Stacked(bench.library, lambda: bench.tracer, said)
    return Stacked(stacks.library(recipe), lambda: stacks.tracer(recipe), said)


def _linked(bench: Bench, lease: Lease) -> StackRecipe:
    """The recipe of the choice that is kept with the adaptation, asked for once an attempt; what is installed without one."""
    if lease not in bench.stacked:
        linked = [one for one in bench.ledger.linked_results(lease.adaptation_id) if one.key.stage == STACK]
        bench.stacked[lease] = recipe_of(load(StackChoice, linked[-1].document) if linked else None)
    return bench.stacked[lease]


def _choice(
    bench: Bench, lease: Lease, stacks: Stacks, recipes: tuple[StackRecipe, ...], model_type: str | None
) -> StackChoice:
    """The choice among the recipes, kept with the adaptation."""
    offered = [(recipe.name, recipe.fingerprint, stacks.library(recipe)) for recipe in recipes]
    lasting = result_key(STACK, 1, model_type, offered)
    # What could not be asked may answer the next time: such a choice is found again by its own attempt alone.
    passing = result_key(STACK, 1, lasting, lease)
    found = next((key for key in (lasting, passing) if bench.ledger.find_result(key) is not None), None)
    choice = choose(model_type, recipes, stacks.model_types, stacks.library) if found is None else None
    key = found or (passing if choice and any(one.knows is None for one in choice.tried) else lasting)
    return keep(bench.ledger, lease, key, StackChoice, lambda: choice or StackChoice(model_type, None)).noun


def _model_type(config: str) -> str | None:
    try:
        document = json.loads(config)
    except (ValueError, RecursionError):
        return None
    stated = document.get("model_type") if isinstance(document, dict) else None
    return stated if isinstance(stated, str) and stated else None


def recipe_of(choice: StackChoice | None) -> StackRecipe:
    """What the choice says to run in: what is installed where it says nothing."""
    return INSTALLED if choice is None or choice.recipe is None else choice.recipe


def runner_of(bench: Bench, lease: Lease) -> Runner:
    """The runner of the stack that was chosen for the adaptation, on whichever host."""
    recipe = INSTALLED if bench.stacks is None else _linked(bench, lease)
    if bench.stacks is None or recipe == INSTALLED:
        return bench.runner
    return bench.stacks.runner(recipe)
