"""Kills at the markers of stages, and what must hold however often one was killed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from e2e.scenario import COMPLETED, PRESTAGED, Scenario


class Kill(StrEnum):
    """What is killed: the platform's worker with its descendants, the whole group, or the database server."""

    WORKER = "worker"
    GROUP = "group"
    POSTGRES = "postgres"


EACH_ONCE = ((Kill.POSTGRES, "inventory"), (Kill.WORKER, "operators"), (Kill.GROUP, "layers"))
"""The scaled series: each kind once, each at another stage."""


@dataclass(slots=True)
class Figures:
    """What a series of kills came to."""

    series: str
    kills: list[dict[str, object]] = field(default_factory=list)
    attempts: int = 0
    adapted_s: float = 0.0
    entries_current: int = 0
    completions_delivered: int = 0
    completions_repeated: int = 0
    completion_ids: int = 0
    prestaged_results_reused: int = 0
    prestaged_results_new: int = 0

    def document(self) -> Mapping[str, object]:
        """As it is written down."""
        return asdict(self)


def strike(scenario: Scenario, kind: Kill) -> None:
    """One kill; what nobody restarts by itself is started again."""
    if kind is Kill.WORKER:
        scenario.kill_worker()
    elif kind is Kill.POSTGRES:
        scenario.kill_postgres()
    else:
        scenario.kill_group()
        scenario.begin()


def kill_at(scenario: Scenario, repo_id: str, kinds: Sequence[tuple[Kill, str]], figures: Figures) -> None:
    """Kill at the marker of each stage in turn, while the adaptation goes on."""
    began_s = time.monotonic()
    since = datetime.now(UTC)
    for kind, stage in kinds:
        seen = scenario.until_stage(repo_id, stage, since)
        assert seen, f"the adaptation had ended before it could be killed at {stage}"
        struck_s = time.monotonic()
        strike(scenario, kind)
        # What the dead had written last is no sign of life.
        since = datetime.now(UTC)
        figures.kills.append(
            {
                "what": kind.value,
                "stage": stage,
                "marker_seen": seen,
                "at_s": round(struck_s - began_s, 1),
                "took_s": round(time.monotonic() - struck_s, 1),
            }
        )


def prestaged_rows(scenario: Scenario) -> set[str]:
    """The ids of the results that need no weights."""
    return {row["id"] for row in scenario.rows("SELECT id FROM results WHERE stage = ANY(%s)", list(PRESTAGED))}


def killed(
    scenario: Scenario,
    model_dir: Path,
    repo_id: str,
    figures: Figures,
    disturb: Callable[[], None],
) -> None:
    """Pre-stage and adapt a release while `disturb` does its worst; then hold what is left against what was promised."""
    scenario.prestage(model_dir, repo_id)
    before = prestaged_rows(scenario)
    assert len(before) >= len(PRESTAGED)
    began_s = time.monotonic()
    scenario.publish(model_dir, repo_id)
    disturb()
    row = scenario.until_ended(repo_id)
    figures.adapted_s = round(time.monotonic() - began_s, 1)
    assert row["state"] == "done", (row, scenario.log)
    figures.attempts = row["attempt"]
    _one_current_entry(scenario, repo_id, figures)
    _reused(scenario, row["id"], before, figures)
    _told(scenario, repo_id, figures)


def _one_current_entry(scenario: Scenario, repo_id: str, figures: Figures) -> None:
    current = scenario.rows(
        "SELECT e.key_digest, c.lifecycle, c.correctness FROM compatibility_current c JOIN entries e ON e.id = c.entry_id"
        " WHERE c.model = %s",
        repo_id,
    )
    figures.entries_current = len(current)
    assert [(row["lifecycle"], row["correctness"]) for row in current] == [("done", "verified")], current


def _reused(scenario: Scenario, adaptation_id: str, before: set[str], figures: Figures) -> None:
    linked = scenario.rows(
        "SELECT r.id, l.reused FROM result_links l JOIN results r ON r.id = l.result_id"
        " WHERE l.adaptation_id = %s AND r.stage = ANY(%s)",
        adaptation_id,
        list(PRESTAGED),
    )
    figures.prestaged_results_reused = sum(row["reused"] for row in linked)
    figures.prestaged_results_new = len(prestaged_rows(scenario) - before)
    assert figures.prestaged_results_new == 0
    assert all(row["reused"] for row in linked)
    assert {row["id"] for row in linked} <= before
    assert len(linked) == len(PRESTAGED)


def _told(scenario: Scenario, repo_id: str, figures: Figures) -> None:
    scenario.until(lambda: bool(scenario.completions(repo_id)), 120, lambda: "the subscriber got no completion")
    # The dispatcher dies between sending and noting that it sent: the message comes again.
    again = scenario.change(
        "UPDATE deliveries d SET state = 'pending', next_try_at = now(), delivered_at = NULL FROM outbox o"
        " WHERE o.id = d.event_id AND o.kind = %s AND o.subject = %s",
        COMPLETED,
        repo_id,
    )
    assert again == 1
    told = len(scenario.completions(repo_id))
    scenario.until(lambda: len(scenario.completions(repo_id)) > told, 120, lambda: "no repeat came")
    ids = scenario.completions(repo_id)
    figures.completions_delivered = len(ids)
    figures.completion_ids = len(set(ids))
    figures.completions_repeated = len(ids) - len(set(ids))
    assert len(set(ids)) == 1, ids
    assert scenario.mailbox.refused == 0
