"""Keep what stands of the list in a table of its own, find names by their words, and remember what was not taken."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

WORDS = "to_tsvector('simple'::regconfig, translate({column}, '/-_.:@'::text, '      '::text))"

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
    RETURN NULL;
END $$;
CREATE TRIGGER entries_keep_standing AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION keep_standing();
"""

FILL = """
INSERT INTO standing (key_digest, seq, model_id, predicted, entry_id, model, platform, mode, lifecycle, correctness,
performance, freshness, grade, reason, engine, dtype, plan, devices, stack_fingerprint, method,
checks_passed, checks_failed, checks_error, checks_not_run, known_gaps, hub, repo_id, revision,
content_id, release_id, adaptation_id, bundle, announced_at, config_seen_at, weights_live_at,
detected_at, staged_at, first_token_at, verified_at, time_to_verified_s, recorded_at, evidence,
waivers, waived_until, gaps)
SELECT e.key_digest, e.seq, e.model_id, e.predicted, e.id, e.model, e.platform, e.mode, e.lifecycle,
e.correctness, e.performance, e.freshness, e.grade, e.reason, e.engine, e.dtype, e.plan, e.devices,
e.stack_fingerprint, e.method, e.checks_passed, e.checks_failed, e.checks_error, e.checks_not_run,
e.known_gaps, r.hub, r.repo_id, r.revision, e.content_id, e.release_id, e.adaptation_id, e.bundle,
e.announced_at, e.config_seen_at, e.weights_live_at, e.detected_at, e.staged_at, e.first_token_at,
e.verified_at, extract(epoch FROM e.verified_at - e.weights_live_at)::double precision,
e.recorded_at, e.document ->> 'evidence', coalesce(jsonb_array_length(e.document -> 'waivers'), 0),
(e.document ->> 'waived_until')::timestamptz, coalesce(e.document -> 'gaps', '[]')
FROM entries e JOIN releases r ON r.id = e.release_id
WHERE NOT EXISTS (SELECT 1 FROM entries newer WHERE newer.key_digest = e.key_digest AND newer.seq > e.seq)
  AND NOT (e.predicted AND EXISTS (
      SELECT 1 FROM entries w
      WHERE w.model_id = e.model_id AND w.platform = e.platform AND w.mode = e.mode AND NOT w.predicted))
  AND NOT ((e.predicted OR e.lifecycle = 'blocked') AND EXISTS (
      SELECT 1 FROM entries later WHERE later.adaptation_id = e.adaptation_id AND later.seq > e.seq))
  AND NOT (e.freshness = 'stale' AND EXISTS (
      SELECT 1 FROM entries again
      WHERE again.adaptation_id = e.adaptation_id AND again.seq > e.seq AND again.key_digest <> e.key_digest
        AND again.lifecycle <> 'blocked'))
"""

CURRENT = """
CREATE OR REPLACE VIEW compatibility_current AS
SELECT s.entry_id, s.model, s.platform, s.mode, s.lifecycle, s.correctness, s.performance, CASE WHEN
s.waived_until < now() THEN 'stale' ELSE s.freshness END AS freshness, s.grade, s.reason, s.engine,
s.dtype, s.plan, s.devices, s.stack_fingerprint, s.method, s.checks_passed, s.checks_failed,
s.checks_error, s.checks_not_run, s.known_gaps, s.hub, s.repo_id, s.revision, s.content_id,
s.release_id, s.adaptation_id, s.bundle, s.announced_at, s.config_seen_at, s.weights_live_at,
s.detected_at, s.staged_at, s.first_token_at, s.verified_at, (SELECT min(d.delivered_at)     FROM
outbox o JOIN deliveries d ON d.event_id = o.id     WHERE o.adaptation_id = s.adaptation_id AND
d.state = 'delivered'       AND o.kind IN ('dayzero.entry.changed', 'dayzero.adaptation.completed',
'dayzero.prestage.completed')) AS notified_at, s.time_to_verified_s, s.recorded_at, s.evidence,
s.waivers, s.waived_until
FROM standing s
WHERE NOT (s.waived_until < now() AND s.waived_until IS NOT NULL AND EXISTS (
    SELECT 1 FROM entries again
    WHERE again.adaptation_id = s.adaptation_id AND again.seq > s.seq AND again.key_digest <> s.key_digest
      AND again.lifecycle <> 'blocked'))
"""


def upgrade() -> None:
    """Add the tables, fill what stands from the entries, and let the view read it."""
    op.create_table(
        "standing",
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("predicted", sa.Boolean(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("lifecycle", sa.Text(), nullable=False),
        sa.Column("correctness", sa.Text(), nullable=False),
        sa.Column("performance", sa.Text(), nullable=False),
        sa.Column("freshness", sa.Text(), nullable=False),
        sa.Column("grade", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("stack_fingerprint", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("checks_passed", sa.BigInteger(), nullable=False),
        sa.Column("checks_failed", sa.BigInteger(), nullable=False),
        sa.Column("checks_error", sa.BigInteger(), nullable=False),
        sa.Column("checks_not_run", sa.BigInteger(), nullable=False),
        sa.Column("known_gaps", sa.BigInteger(), nullable=False),
        sa.Column("hub", sa.Text(), nullable=False),
        sa.Column("repo_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("release_id", sa.Text(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("config_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("weights_live_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("detected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("staged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_token_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("time_to_verified_s", sa.Double(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("waivers", sa.BigInteger(), nullable=False),
        sa.Column("waived_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gaps", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("key_digest", name=op.f("pk_standing")),
    )
    order = ["model", "platform", "mode", "engine", "dtype", "plan", "key_digest"]
    op.create_index("ix_standing_order", "standing", order)
    op.create_index("ix_standing_platform_model", "standing", ["platform", "model"])
    op.create_index("ix_standing_model_id_platform_mode", "standing", ["model_id", "platform", "mode"])
    op.create_index("ix_standing_adaptation_id", "standing", ["adaptation_id"])
    op.create_index("ix_standing_recorded_at", "standing", ["recorded_at"])
    op.create_table(
        "sightings",
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("repo_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_sightings_source_id_sources"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source_id", "repo_id", name=op.f("pk_sightings")),
    )
    op.create_index("ix_sightings_seen_at", "sightings", ["seen_at"])
    for table, column in (("models", "name"), ("model_aliases", "alias")):
        words = sa.Computed(WORDS.format(column=column), persisted=True)
        op.add_column(table, sa.Column("words", postgresql.TSVECTOR(), words, nullable=True))
        op.create_index(f"ix_{table}_words", table, ["words"], postgresql_using="gin")
    op.create_index("ix_entries_model_id_seq", "entries", ["model_id", "seq"])
    op.create_index("ix_releases_seq", "releases", ["seq"])
    op.create_index("ix_adaptations_seq", "adaptations", ["seq"])
    for statement in (FILL, KEEP_STANDING, CURRENT):
        op.execute(statement)


def downgrade() -> None:
    """Refuse: a view cannot go back in place."""
    raise NotImplementedError("go back by restoring a backup")
