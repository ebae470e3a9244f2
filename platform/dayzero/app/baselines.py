"""Recorded baselines of this host."""

from dayzero.adapters.runners.baseline_folders import list_baselines as listed
from dayzero.app.local import local_work
from dayzero.domain.baselines import Baseline
from dayzero.settings import Settings
from dayzero.steps import baselines as steps


def record_baseline(
    settings: Settings, model: str, platform: str, *, keep_layers: str, most_bytes: int | None
) -> tuple[Baseline, ...]:
    """Record the model's baselines, or find those that are there (see steps/baselines)."""
    work = local_work(settings, model, platform)
    return steps.record_baselines(work.bench, work.lease, keep_layers=keep_layers, most_bytes=most_bytes).baselines


def list_baselines(settings: Settings) -> tuple[Baseline, ...]:
    """Every baseline in the data folder, the newest first."""
    return listed(settings.data_dir.resolve() / "work" / "baselines")
