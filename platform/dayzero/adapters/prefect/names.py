"""Names that dayzero gives to things in Prefect."""

from dayzero.domain.adaptation import Adaptation, Purpose

CONTROL_POOL = "dayzero-control"
CONTROL_DEPLOYMENT = "dayzero"
PLATFORM_FLOWS = frozenset({"verify"})
"""Flows that run on the pool of each platform; every other flow runs on the control pool."""

FLOW_OF_PURPOSE = {Purpose.PRESTAGE: "prestage", Purpose.ADAPT: "adapt"}


def pool_of(platform: str) -> str:
    """The work pool of a platform."""
    return f"dayzero-{platform}"


def deployment_of(flow: str, platform: str) -> str:
    """The deployment of a flow for work on a platform, as FLOW/DEPLOYMENT."""
    return f"{flow}/{platform if flow in PLATFORM_FLOWS else CONTROL_DEPLOYMENT}"


def adaptation_tag(adaptation_id: str) -> str:
    """The tag that finds every run of an adaptation."""
    return f"adaptation:{adaptation_id}"


def run_tags(adaptation: Adaptation, stage: str) -> list[str]:
    """Tags of a run: model, platform, stage, and the adaptation itself."""
    return [
        f"model:{adaptation.model}",
        f"platform:{adaptation.platform}",
        f"stage:{stage}",
        adaptation_tag(adaptation.id),
    ]


def run_name(adaptation: Adaptation, stage: str, attempt: int) -> str:
    """What a person reads in the list of runs."""
    return f"{adaptation.model} · {adaptation.platform} · {stage} #{attempt}"


def start_key(adaptation_id: str, attempt: int) -> str:
    """The idempotency key of an attempt's start."""
    return f"{adaptation_id}:{attempt}"


def verify_key(adaptation_id: str, attempt: int) -> str:
    """The idempotency key of the verification of an attempt."""
    return f"{adaptation_id}:{attempt}:verify"
