"""The columns of the compatibility list: one list for the SQL view, its JSON, its filters and its documentation."""

from dataclasses import dataclass
from enum import StrEnum


class ColumnKind(StrEnum):
    """What a column holds: text, a number, or a moment (ISO 8601 in JSON)."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, kind and meaning. A value may be absent (null) where nobody knows it."""

    name: str
    kind: ColumnKind
    meaning: str


def _text(name: str, meaning: str) -> Column:
    return Column(name, ColumnKind.TEXT, meaning)


def _number(name: str, meaning: str) -> Column:
    return Column(name, ColumnKind.NUMBER, meaning)


def _time(name: str, meaning: str) -> Column:
    return Column(name, ColumnKind.TIME, meaning)


COMPATIBILITY_COLUMNS: tuple[Column, ...] = (
    _text("entry_id", "id of this version of the entry"),
    _text("model", "the model's name"),
    _text("platform", "slug of the platform"),
    _text("mode", "inference or fine-tune"),
    _text("lifecycle", "predicted, staged, adapting, done or blocked"),
    _text("correctness", "unknown, functional, verified or failing"),
    _text("performance", "unmeasured, measured or meets_floor"),
    _text("freshness", "current or stale"),
    _text("grade", "weakest grade of the evidence: predicted, declared or measured; `evidence` says of what"),
    _text("reason", "why the entry stands as it stands, in a sentence"),
    _text("engine", "what runs the model"),
    _text("dtype", "dtype of the weights as run"),
    _text("plan", "degrees of parallelism (tp1, tp2-pp2 …)"),
    _number("devices", "devices that the plan takes"),
    _text("stack_fingerprint", "fingerprint of the stack"),
    _text("method", "version of the method that judged"),
    _number("checks_passed", "checks with verdict pass"),
    _number("checks_failed", "checks with verdict fail"),
    _number("checks_error", "checks that could not be measured"),
    _number("checks_not_run", "checks that nobody ran"),
    _number("known_gaps", "operators that the platform lacks"),
    _text("hub", "hub of the release: hf, ms, dir or config"),
    _text("repo_id", "repository (or folder) of the release"),
    _text("revision", "commit of the release"),
    _text("content_id", "digest over the files that matter to adaptation"),
    _text("release_id", "id of the release"),
    _text("adaptation_id", "id of the adaptation that the entry came from"),
    _text("bundle", "sha256 of the bundle"),
    _time("announced_at", "day-0 clock: architecture announced"),
    _time("config_seen_at", "day-0 clock: configuration seen"),
    _time("weights_live_at", "day-0 clock: weights live on the hub"),
    _time("detected_at", "day-0 clock: live weights detected by us"),
    _time("staged_at", "day-0 clock: pre-stage complete"),
    _time("first_token_at", "day-0 clock: first real completion on the platform"),
    _time("verified_at", "day-0 clock: entry verified"),
    _time("notified_at", "day-0 clock: first subscriber told"),
    _number("time_to_verified_s", "seconds from live weights to verified"),
    _time("recorded_at", "when this version was recorded"),
    _text("evidence", "what each grade of evidence refers to, in a sentence"),
    _number("waivers", "waivers by which failing checks do not make the entry failing"),
    _time("waived_until", "when the first of them expires; from then on the entry is stale"),
)
"""The columns of the view `compatibility_current`, in its order."""

ROLLUP_COLUMNS: tuple[Column, ...] = (
    _text("model", "the model's name"),
    _text("platform", "slug of the platform"),
    _text("lifecycle", "of the best current entry"),
    _text("correctness", "of the best current entry: verified, then functional, failing, unknown"),
    _text("performance", "of the best current entry"),
    _text("freshness", "of the best current entry; current comes before stale"),
    _text("best_entry_id", "id of the best current entry"),
    _text("best_mode", "mode of the best current entry"),
    _number("entries", "current entries of the model on the platform"),
    _number("verified", "current entries that are verified and fresh"),
    _number("failing", "current entries that are failing and fresh"),
    _time("recorded_at", "when the newest of them was recorded"),
)
"""The columns of the view `compatibility_rollup`, in its order."""

CLOCK_COLUMNS: tuple[Column, ...] = (
    _text("model", "the model's name"),
    _text("platform", "slug of the platform"),
    _text("correctness", "of the best entry of the model on the platform"),
    _time("announced_at", "architecture announced"),
    _time("config_seen_at", "configuration seen"),
    _time("weights_live_at", "weights live on the hub"),
    _time("detected_at", "live weights detected by us"),
    _time("staged_at", "pre-stage complete"),
    _time("first_token_at", "first real completion on the platform"),
    _time("verified_at", "entry verified"),
    _time("notified_at", "first subscriber told"),
    _number("staging_s", "seconds from the configuration to the end of the pre-stage"),
    _number("detection_s", "seconds from live weights to their detection"),
    _number("first_token_s", "seconds from detection to the first token"),
    _number("verification_s", "seconds from the first token to verified"),
    _number("notification_s", "seconds from verified to the first subscriber told"),
    _text("longest_step", "what took the most time since live weights: detection, first_token, verification or notification"),
    _number("longest_step_s", "seconds that it took"),
    _number("time_to_verified_s", "seconds from live weights to verified"),
    _number("waiting_s", "seconds since live weights, where it is not verified yet"),
)
"""The columns of the view `day_zero_clock`, in its order. Moments out of order (a clock jumped) give no seconds."""

LEAGUE_COLUMNS: tuple[Column, ...] = (
    _text("platform", "slug of the platform"),
    _number("models", "models whose weights are live and that were asked for on the platform"),
    _number("verified", "those that were verified"),
    _number("within_target", "those that were verified within the target (24 h in the view)"),
    _number("waiting", "those that are not verified yet"),
    _number("late", "those that took, or have waited, longer than the target"),
    _number("median_s", "median of the seconds from live weights to verified"),
    _number("p90_s", "90th percentile of them"),
    _text("most_time_in", "the longest step of the most models"),
)
"""The columns of the view `day_zero_league`, in its order."""

LAYER_COLUMNS: tuple[Column, ...] = (
    _text("entry_id", "id of the entry"),
    _text("model", "the model's name"),
    _text("platform", "slug of the platform"),
    _text("layer", "operator_coverage, precision, memory_parallelism or end_to_end"),
    _text("verdict", "pass, fail, error or not_run: fail where a check fails, not_run where a required one is not shown"),
    _text("grade", "weakest grade of the evidence: predicted, declared or measured"),
    _number("n", "samples over all checks that ran"),
    _number("checks", "checks that ran"),
    _text("intervals", "JSON list of check, figure, low and high, where checks state an interval"),
    _text("missing", "JSON list of required checks that are not shown"),
)
"""The columns of the view `compatibility_layers` (entries that stand), in its order."""

FEATURE_COLUMNS: tuple[Column, ...] = (
    _text("entry_id", "id of the entry"),
    _text("model", "the model's name"),
    _text("platform", "slug of the platform"),
    _text("feature", "dtype, quantization, parallelism, context_tokens, cache_dtype, fine_tune or engine"),
    _text("value", "which one: bfloat16, tp2-pp2, 4096, fp8_e4m3_tensor, lora …"),
    _text("verdict", "what its check says: pass, fail, error or not_run"),
    _text("grade", "grade of the evidence"),
    _text("check", "the check that says so"),
)
"""The columns of the view `compatibility_features` (entries that stand), in its order."""

EVENT_COLUMNS: tuple[Column, ...] = (
    *COMPATIBILITY_COLUMNS,
    _text("event", "kind of the event (dayzero.entry.changed …)"),
    _text("stage", "stage of the release: announced, config, weights_partial, weights, superseded or withdrawn"),
    _text("purpose", "purpose of the adaptation: prestage or adapt"),
    _number("attempt", "attempt of the adaptation"),
)
"""What a subscription's filter may name. An event has those that apply to it; the others are unknown."""

READER_EVENT_COLUMNS: tuple[Column, ...] = (
    _text("event_id", "id of the event, the same in every message about it"),
    _text("event", "kind of the event (dayzero.entry.changed …)"),
    _text("subject", "the model that it is about"),
    _time("occurred_at", "when it happened"),
    _text("data", "what filters see of the event, as JSON (jsonb)"),
)
"""The columns of the view `events` of the database's readers, in its order."""
