"""Keep a row a model on a platform: its best entry, and counts."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEEP_STANDING = """
CREATE OR REPLACE FUNCTION keep_standing() RETURNS trigger LANGUAGE plpgsql AS $$
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
    INSERT INTO standing (key_digest, seq, model_id, predicted, entry_id, model, platform, mode, lifecycle, correctness,
performance, freshness, grade, reason, engine, dtype, plan, devices, stack_fingerprint, method,
checks_passed, checks_failed, checks_error, checks_not_run, known_gaps, hub, repo_id, revision,
content_id, release_id, adaptation_id, bundle, announced_at, config_seen_at, weights_live_at,
detected_at, staged_at, first_token_at, verified_at, time_to_verified_s, recorded_at, evidence,
waivers, waived_until, gaps)
    SELECT NEW.key_digest, NEW.seq, NEW.model_id, NEW.predicted, NEW.id, NEW.model, NEW.platform, NEW.mode,
NEW.lifecycle, NEW.correctness, NEW.performance, NEW.freshness, NEW.grade, NEW.reason, NEW.engine,
NEW.dtype, NEW.plan, NEW.devices, NEW.stack_fingerprint, NEW.method, NEW.checks_passed,
NEW.checks_failed, NEW.checks_error, NEW.checks_not_run, NEW.known_gaps, r.hub, r.repo_id,
r.revision, NEW.content_id, NEW.release_id, NEW.adaptation_id, NEW.bundle, NEW.announced_at,
NEW.config_seen_at, NEW.weights_live_at, NEW.detected_at, NEW.staged_at, NEW.first_token_at,
NEW.verified_at, extract(epoch FROM NEW.verified_at - NEW.weights_live_at)::double precision,
NEW.recorded_at, NEW.document ->> 'evidence', coalesce(jsonb_array_length(NEW.document ->
'waivers'), 0), (NEW.document ->> 'waived_until')::timestamptz, coalesce(NEW.document -> 'gaps',
'[]')
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
    INSERT INTO cells (model, platform, entry_id, mode, lifecycle, correctness, performance, freshness, best_recorded_at,
entries, verified, functional, failing, unknown, stale, recorded_at, next_expiry)
    SELECT DISTINCT ON (c.model, c.platform)
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
WHERE c.model = NEW.model AND c.platform = NEW.platform
WINDOW whole AS (PARTITION BY c.model, c.platform)
ORDER BY c.model, c.platform, (c.freshness = 'current') DESC,
         array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], c.correctness),
         array_position(ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted'], c.lifecycle),
         c.recorded_at DESC, c.entry_id;
    RETURN NULL;
END $$;
"""

FILL = """
INSERT INTO cells (model, platform, entry_id, mode, lifecycle, correctness, performance, freshness, best_recorded_at,
entries, verified, functional, failing, unknown, stale, recorded_at, next_expiry)
SELECT DISTINCT ON (c.model, c.platform)
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
WHERE true
WINDOW whole AS (PARTITION BY c.model, c.platform)
ORDER BY c.model, c.platform, (c.freshness = 'current') DESC,
         array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], c.correctness),
         array_position(ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted'], c.lifecycle),
         c.recorded_at DESC, c.entry_id
"""

CELLS = """
CREATE VIEW compatibility_cells AS
SELECT k.model, k.platform, k.entry_id, k.mode, k.lifecycle, k.correctness, k.performance, k.freshness,
k.best_recorded_at, k.entries, k.verified, k.functional, k.failing, k.unknown, k.stale,
k.recorded_at, k.next_expiry FROM cells k WHERE k.next_expiry IS NULL OR k.next_expiry >= now()
UNION ALL
SELECT k.model, k.platform, k.entry_id, k.mode, k.lifecycle, k.correctness, k.performance, k.freshness,
k.best_recorded_at, k.entries, k.verified, k.functional, k.failing, k.unknown, k.stale,
k.recorded_at, k.next_expiry FROM (
SELECT DISTINCT ON (c.model, c.platform)
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
WHERE (c.model, c.platform) IN (SELECT d.model, d.platform FROM cells d WHERE d.next_expiry < now())
WINDOW whole AS (PARTITION BY c.model, c.platform)
ORDER BY c.model, c.platform, (c.freshness = 'current') DESC,
         array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], c.correctness),
         array_position(ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted'], c.lifecycle),
         c.recorded_at DESC, c.entry_id
) k
"""

ROLLUP = """
CREATE OR REPLACE VIEW compatibility_rollup AS
SELECT model, platform, lifecycle, correctness, performance, freshness, entry_id AS best_entry_id, mode AS best_mode,
       entries, verified, failing, recorded_at
FROM compatibility_cells
"""


def upgrade() -> None:
    """Add the table, fill it from what stands, and let the roll-up read it."""
    op.create_table(
        "cells",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("lifecycle", sa.Text(), nullable=False),
        sa.Column("correctness", sa.Text(), nullable=False),
        sa.Column("performance", sa.Text(), nullable=False),
        sa.Column("freshness", sa.Text(), nullable=False),
        sa.Column("best_recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.BigInteger(), nullable=False),
        sa.Column("functional", sa.BigInteger(), nullable=False),
        sa.Column("failing", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.Column("stale", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_expiry", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("model", "platform", name=op.f("pk_cells")),
    )
    op.create_index("ix_cells_next_expiry", "cells", ["next_expiry"])
    for statement in (FILL, KEEP_STANDING, CELLS, ROLLUP):
        op.execute(statement)


def downgrade() -> None:
    """Refuse: a view cannot go back in place."""
    raise NotImplementedError("go back by restoring a backup")
