"""Let failing checks be waived, for a while and by name."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


VERSIONS = """
CREATE OR REPLACE VIEW compatibility_versions AS
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

CURRENT = """
CREATE OR REPLACE VIEW compatibility_current AS
SELECT v.entry_id, v.model, v.platform, v.mode, v.lifecycle, v.correctness, v.performance, v.freshness, v.grade,
v.reason, v.engine, v.dtype, v.plan, v.devices, v.stack_fingerprint, v.method, v.checks_passed,
v.checks_failed, v.checks_error, v.checks_not_run, v.known_gaps, v.hub, v.repo_id, v.revision, v.content_id,
v.release_id, v.adaptation_id, v.bundle, v.announced_at, v.config_seen_at, v.weights_live_at, v.detected_at,
v.staged_at, v.first_token_at, v.verified_at, v.notified_at, v.time_to_verified_s, v.recorded_at, v.evidence,
v.waivers, v.waived_until
FROM compatibility_versions v
WHERE NOT EXISTS (SELECT 1 FROM entries newer WHERE newer.key_digest = v.key_digest AND newer.seq > v.seq)
  AND NOT (v.predicted AND EXISTS (
      SELECT 1 FROM entries w
      WHERE w.model_id = v.model_id AND w.platform = v.platform AND w.mode = v.mode AND NOT w.predicted))
  AND NOT ((v.predicted OR v.lifecycle = 'blocked') AND EXISTS (
      SELECT 1 FROM entries later WHERE later.adaptation_id = v.adaptation_id AND later.seq > v.seq))
"""


def upgrade() -> None:
    """Add the table of waivers, and their columns to the views; entries of older versions have none."""
    op.create_table(
        "waivers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("check_name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_waivers")),
    )
    for statement in (VERSIONS, CURRENT):
        op.execute(statement)


def downgrade() -> None:
    """Refuse: a view cannot lose a column in place, and waivers would be lost."""
    raise NotImplementedError("go back by restoring a backup")
