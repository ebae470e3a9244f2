"""SQL of the views and of the append-only trigger, as they stand after the newest migration."""

import textwrap
from typing import Any

from sqlalchemy import Column, DateTime, Double, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from dayzero.adapters.store.tables_telling import CellRow, StandingRow
from dayzero.domain.columns import CLOCK_COLUMNS, COMPATIBILITY_COLUMNS, ROLLUP_COLUMNS, ColumnKind
from dayzero.domain.columns import Column as Listed

APPEND_ONLY = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_trail_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_trail
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

VERSIONS = """
CREATE VIEW compatibility_versions AS
SELECT e.id AS entry_id, e.model, e.platform, e.mode, e.lifecycle, e.correctness, e.performance,
       CASE WHEN (e.document ->> 'waived_until')::timestamptz < now() THEN 'stale' ELSE e.freshness END AS freshness, e.grade,
       e.reason, e.engine, e.dtype, e.plan, e.devices, e.stack_fingerprint, e.method,
       e.checks_passed, e.checks_failed, e.checks_error, e.checks_not_run, e.known_gaps,
       r.hub, r.repo_id, r.revision, e.content_id, e.release_id, e.adaptation_id, e.bundle,
       e.announced_at, e.config_seen_at, e.weights_live_at, e.detected_at, e.staged_at, e.first_token_at, e.verified_at,
       told.notified_at,
       extract(epoch FROM e.verified_at - e.weights_live_at)::double precision AS time_to_verified_s,
       e.recorded_at, e.seq, e.key_digest, e.model_id, e.predicted, e.document ->> 'evidence' AS evidence,
       coalesce(jsonb_array_length(e.document -> 'waivers'), 0)::bigint AS waivers,
       (e.document ->> 'waived_until')::timestamptz AS waived_until
FROM entries e
JOIN releases r ON r.id = e.release_id
LEFT JOIN LATERAL (
    SELECT min(d.delivered_at) AS notified_at
    FROM outbox o JOIN deliveries d ON d.event_id = o.id
    WHERE o.adaptation_id = e.adaptation_id AND d.state = 'delivered'
      AND o.kind IN ('dayzero.entry.changed', 'dayzero.adaptation.completed', 'dayzero.prestage.completed')
) told ON true
"""

KEEP_STANDING = """
CREATE FUNCTION keep_standing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Two writers of one model on one platform go one after the other, so that neither overlooks what the other supersedes.
    PERFORM pg_advisory_xact_lock(hashtext(NEW.model_id), hashtext(NEW.platform));
    DELETE FROM standing s
    WHERE s.seq < NEW.seq
      AND (s.key_digest = NEW.key_digest
           OR (NOT NEW.predicted AND s.predicted
               AND s.model_id = NEW.model_id AND s.platform = NEW.platform AND s.mode = NEW.mode)
           OR (s.adaptation_id = NEW.adaptation_id AND (s.predicted OR s.lifecycle = 'blocked'))
           OR (s.adaptation_id = NEW.adaptation_id AND NEW.lifecycle <> 'blocked'
               AND (s.freshness = 'stale' OR s.waived_until < now())));
    INSERT INTO standing ({columns})
    SELECT {values}
    FROM releases r
    WHERE r.id = NEW.release_id
      AND NOT (NEW.predicted AND EXISTS (
          SELECT 1 FROM entries w
          WHERE w.model_id = NEW.model_id AND w.platform = NEW.platform AND w.mode = NEW.mode AND NOT w.predicted))
      AND NOT ((NEW.predicted OR NEW.lifecycle = 'blocked') AND EXISTS (
          SELECT 1 FROM entries later WHERE later.adaptation_id = NEW.adaptation_id AND later.seq > NEW.seq))
      AND NOT (NEW.freshness = 'stale' AND EXISTS (
          SELECT 1 FROM entries again
          WHERE again.adaptation_id = NEW.adaptation_id AND again.seq > NEW.seq AND again.key_digest <> NEW.key_digest
            AND again.lifecycle <> 'blocked'))
    ON CONFLICT (key_digest) DO NOTHING;
    DELETE FROM cells c WHERE c.model = NEW.model AND c.platform = NEW.platform;
    INSERT INTO cells ({cell_columns})
    {cell};
    RETURN NULL;
END $$;
CREATE TRIGGER entries_keep_standing AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION keep_standing();
"""
"""What compatibility_current shows, kept row by row as entries are appended: the list stays small where history grows."""

CURRENT = """
CREATE VIEW compatibility_current AS
SELECT {columns}
FROM standing s
WHERE NOT (s.waived_until < now() AND s.waived_until IS NOT NULL AND EXISTS (
    SELECT 1 FROM entries again
    WHERE again.adaptation_id = s.adaptation_id AND again.seq > s.seq AND again.key_digest <> s.key_digest
      AND again.lifecycle <> 'blocked'))
"""

CELL = """SELECT DISTINCT ON (c.model, c.platform)
       c.model, c.platform, c.entry_id, c.mode, c.lifecycle, c.correctness, c.performance, c.freshness,
       c.recorded_at AS best_recorded_at, count(*) OVER whole AS entries,
       count(*) FILTER (WHERE c.correctness = 'verified' AND c.freshness = 'current') OVER whole AS verified,
       count(*) FILTER (WHERE c.correctness = 'functional' AND c.freshness = 'current') OVER whole AS functional,
       count(*) FILTER (WHERE c.correctness = 'failing' AND c.freshness = 'current') OVER whole AS failing,
       count(*) FILTER (WHERE c.correctness = 'unknown' AND c.freshness = 'current') OVER whole AS unknown,
       count(*) FILTER (WHERE c.freshness = 'stale') OVER whole AS stale,
       max(c.recorded_at) OVER whole AS recorded_at,
       min(c.waived_until) FILTER (WHERE c.waived_until >= now()) OVER whole AS next_expiry
FROM compatibility_current c
WHERE {where}
WINDOW whole AS (PARTITION BY c.model, c.platform)
ORDER BY c.model, c.platform, (c.freshness = 'current') DESC,
         array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], c.correctness),
         array_position(ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted'], c.lifecycle),
         c.recorded_at DESC, c.entry_id"""
"""The best entry of a model on a platform, and how many there are of each kind."""

CELLS = """
CREATE VIEW compatibility_cells AS
SELECT {columns} FROM cells k WHERE k.next_expiry IS NULL OR k.next_expiry >= now()
UNION ALL
SELECT {columns} FROM (
{due}
) k
"""
"""What is kept, and what a waiver that has expired since makes out of date computed anew."""

ROLLUP = """
CREATE VIEW compatibility_rollup AS
SELECT model, platform, lifecycle, correctness, performance, freshness, entry_id AS best_entry_id, mode AS best_mode,
       entries, verified, failing, recorded_at
FROM compatibility_cells
"""

CLOCK = """
CREATE VIEW day_zero_clock AS
WITH moments AS (
    SELECT c.model, c.platform,
           (array_agg(c.correctness ORDER BY (c.freshness = 'current') DESC,
                      array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], c.correctness)))[1] AS correctness,
           min(c.announced_at) AS announced_at, min(c.config_seen_at) AS config_seen_at,
           min(c.weights_live_at) AS weights_live_at, min(c.detected_at) AS detected_at, min(c.staged_at) AS staged_at,
           min(c.first_token_at) AS first_token_at, min(c.verified_at) AS verified_at, min(c.notified_at) AS notified_at
    FROM compatibility_current c
    GROUP BY c.model, c.platform
), steps AS (
    SELECT m.*,
           nonnegative_s(m.config_seen_at, m.staged_at) AS staging_s,
           nonnegative_s(m.weights_live_at, m.detected_at) AS detection_s,
           nonnegative_s(m.detected_at, m.first_token_at) AS first_token_s,
           nonnegative_s(m.first_token_at, m.verified_at) AS verification_s,
           nonnegative_s(m.verified_at, m.notified_at) AS notification_s
    FROM moments m
)
SELECT s.*, longest.step AS longest_step, longest.took_s AS longest_step_s,
       nonnegative_s(s.weights_live_at, s.verified_at) AS time_to_verified_s,
       CASE WHEN s.verified_at IS NULL THEN nonnegative_s(s.weights_live_at, now()) END AS waiting_s
FROM steps s
LEFT JOIN LATERAL (
    SELECT step, took_s
    FROM (VALUES (1, 'detection', s.detection_s), (2, 'first_token', s.first_token_s),
                 (3, 'verification', s.verification_s), (4, 'notification', s.notification_s)) AS taken (place, step, took_s)
    WHERE took_s IS NOT NULL
    ORDER BY took_s DESC, place
    LIMIT 1
) longest ON true
"""

NONNEGATIVE = """
CREATE FUNCTION nonnegative_s(since timestamptz, until timestamptz) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN until >= since THEN extract(epoch FROM until - since)::double precision END
$$
"""
"""Seconds between two moments; nothing where one is unknown, or a clock jumped."""

LEAGUE = """
CREATE VIEW day_zero_league AS
SELECT platform, count(*) AS models, count(verified_at) AS verified,
       count(*) FILTER (WHERE time_to_verified_s <= 86400) AS within_target,
       count(*) FILTER (WHERE verified_at IS NULL) AS waiting,
       count(*) FILTER (WHERE time_to_verified_s > 86400 OR waiting_s > 86400) AS late,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY time_to_verified_s) AS median_s,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY time_to_verified_s) AS p90_s,
       mode() WITHIN GROUP (ORDER BY longest_step) AS most_time_in
FROM day_zero_clock
WHERE weights_live_at IS NOT NULL
GROUP BY platform
"""

LAYERS = """
CREATE VIEW compatibility_layers AS
SELECT s.entry_id, s.model, s.platform, one ->> 'layer' AS layer, one ->> 'verdict' AS verdict, one ->> 'grade' AS grade,
       (one ->> 'n')::bigint AS n, (one ->> 'checks')::bigint AS checks, (one -> 'intervals')::text AS intervals,
       (one -> 'missing')::text AS missing
FROM standing s JOIN entries e ON e.id = s.entry_id, jsonb_array_elements(coalesce(e.document -> 'layers', '[]')) AS one
"""

FEATURES = """
CREATE VIEW compatibility_features AS
SELECT s.entry_id, s.model, s.platform, one ->> 'feature' AS feature, one ->> 'value' AS value, one ->> 'verdict' AS verdict,
       one ->> 'grade' AS grade, one ->> 'check' AS "check"
FROM standing s JOIN entries e ON e.id = s.entry_id, jsonb_array_elements(coalesce(e.document -> 'features', '[]')) AS one
"""

VIEWS = (
    "compatibility_versions",
    "compatibility_current",
    "compatibility_cells",
    "compatibility_rollup",
    "day_zero_clock",
    "day_zero_league",
)

_FROM_RELEASE = ("hub", "repo_id", "revision")
_FROM_DOCUMENT = {
    "evidence": "NEW.document ->> 'evidence'",
    "waivers": "coalesce(jsonb_array_length(NEW.document -> 'waivers'), 0)",
    "waived_until": "(NEW.document ->> 'waived_until')::timestamptz",
    "gaps": "coalesce(NEW.document -> 'gaps', '[]')",
    "time_to_verified_s": "extract(epoch FROM NEW.verified_at - NEW.weights_live_at)::double precision",
    "entry_id": "NEW.id",
}
_IN_VIEW = {
    "freshness": "CASE WHEN s.waived_until < now() THEN 'stale' ELSE s.freshness END AS freshness",
    "notified_at": """(SELECT min(d.delivered_at)
    FROM outbox o JOIN deliveries d ON d.event_id = o.id
    WHERE o.adaptation_id = s.adaptation_id AND d.state = 'delivered'
      AND o.kind IN ('dayzero.entry.changed', 'dayzero.adaptation.completed', 'dayzero.prestage.completed')) AS notified_at""",
}


def keep_standing() -> str:
    """The trigger that keeps `standing`, over the columns of its table."""
    names = [column.name for column in StandingRow.__table__.columns]
    values = [_FROM_DOCUMENT.get(name, f"r.{name}" if name in _FROM_RELEASE else f"NEW.{name}") for name in names]
    cell = CELL.format(where="c.model = NEW.model AND c.platform = NEW.platform")
    cell_columns = _filled(_cell_columns())
    return KEEP_STANDING.format(columns=_filled(names), values=_filled(values), cell=cell, cell_columns=cell_columns)


def current() -> str:
    """The view `compatibility_current`, over the columns of the list."""
    return CURRENT.format(columns=_filled([_IN_VIEW.get(column.name, f"s.{column.name}") for column in COMPATIBILITY_COLUMNS]))


def cells() -> str:
    """The view `compatibility_cells`."""
    due = CELL.format(where="(c.model, c.platform) IN (SELECT d.model, d.platform FROM cells d WHERE d.next_expiry < now())")
    return CELLS.format(columns=_filled([f"k.{name}" for name in _cell_columns()]), due=due)


def _cell_columns() -> list[str]:
    return [column.name for column in CellRow.__table__.columns]


def _filled(parts: list[str]) -> str:
    return textwrap.fill(", ".join(parts), 100, break_long_words=False, break_on_hyphens=False)


def statements() -> tuple[str, ...]:
    """What makes triggers and views on top of the tables, in order."""
    return (APPEND_ONLY, VERSIONS, keep_standing(), current(), cells(), ROLLUP, NONNEGATIVE, CLOCK, LEAGUE, LAYERS, FEATURES)


_TYPES: dict[ColumnKind, TypeEngine[Any]] = {
    ColumnKind.TEXT: Text(),
    ColumnKind.NUMBER: Double(),
    ColumnKind.TIME: DateTime(timezone=True),
}
_views = MetaData()


def _view(name: str, columns: tuple[Listed, ...]) -> Table:
    return Table(name, _views, *(Column(column.name, _TYPES[column.kind]) for column in columns))


current_view = _view("compatibility_current", COMPATIBILITY_COLUMNS)
"""The newest version of each entry.

Left out: predictions that weights have superseded; and what an adaptation predicted, or was blocked with, before it came
further (its key may have changed with what became known: dtype, plan).
"""

rollup_view = _view("compatibility_rollup", ROLLUP_COLUMNS)
"""One row a model × platform."""

cells_view = Table("compatibility_cells", _views, *(Column(one.name, one.type) for one in CellRow.__table__.columns))
"""One row a model × platform with its counts, as pages need it."""

versions_view = _view("compatibility_versions", COMPATIBILITY_COLUMNS)
"""Every version of every entry, with the same columns."""

clock_view = _view("day_zero_clock", CLOCK_COLUMNS)
"""One row a model × platform: its moments, what lies between them, and what took the most time."""
