"""What a plan is asked for, from words to nouns."""

from dayzero.adapters.profiles.templates import choose_template, load_templates
from dayzero.domain.planning import PlanRequest
from dayzero.settings import Settings
from dayzero.stages.planning.asked import Asked, workload_of
from dayzero.stages.planning.what_if import read_change


def plan_request(
    settings: Settings, asked: Asked, template: str | None, what_if: tuple[str, ...], *, devices_given: bool
) -> PlanRequest:
    """The request; BadInputError for a template or a change that is none."""
    chosen = None if template is None else choose_template(load_templates(settings.plan_templates), template)
    workload = workload_of(asked, chosen, devices_given=devices_given)
    return PlanRequest(workload, tuple(read_change(text) for text in what_if))
