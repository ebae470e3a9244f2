"""Make the first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


APPEND_ONLY = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

VERSIONS = """
CREATE VIEW compatibility_versions AS
SELECT e.id AS entry_id, e.model, e.platform, e.mode, e.lifecycle, e.correctness, e.performance, e.freshness, e.grade,
       e.reason, e.engine, e.dtype, e.plan, e.devices, e.stack_fingerprint, e.method,
       e.checks_passed, e.checks_failed, e.checks_error, e.checks_not_run, e.known_gaps,
       r.hub, r.repo_id, r.revision, e.content_id, e.release_id, e.adaptation_id, e.bundle,
       e.announced_at, e.config_seen_at, e.weights_live_at, e.detected_at, e.staged_at, e.first_token_at, e.verified_at,
       told.notified_at,
       extract(epoch FROM e.verified_at - e.weights_live_at)::double precision AS time_to_verified_s,
       e.recorded_at, e.seq, e.key_digest, e.model_id, e.predicted
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
CREATE VIEW compatibility_current AS
SELECT v.entry_id, v.model, v.platform, v.mode, v.lifecycle, v.correctness, v.performance, v.freshness, v.grade,
v.reason, v.engine, v.dtype, v.plan, v.devices, v.stack_fingerprint, v.method, v.checks_passed,
v.checks_failed, v.checks_error, v.checks_not_run, v.known_gaps, v.hub, v.repo_id, v.revision, v.content_id,
v.release_id, v.adaptation_id, v.bundle, v.announced_at, v.config_seen_at, v.weights_live_at, v.detected_at,
v.staged_at, v.first_token_at, v.verified_at, v.notified_at, v.time_to_verified_s, v.recorded_at
FROM compatibility_versions v
WHERE NOT EXISTS (SELECT 1 FROM entries newer WHERE newer.key_digest = v.key_digest AND newer.seq > v.seq)
  AND NOT (v.predicted AND EXISTS (
      SELECT 1 FROM entries w
      WHERE w.model_id = v.model_id AND w.platform = v.platform AND w.mode = v.mode AND NOT w.predicted))
  AND NOT ((v.predicted OR v.lifecycle = 'blocked') AND EXISTS (
      SELECT 1 FROM entries later WHERE later.adaptation_id = v.adaptation_id AND later.seq > v.seq))
"""

ROLLUP = """
CREATE VIEW compatibility_rollup AS
SELECT DISTINCT ON (model, platform)
       model, platform, lifecycle, correctness, performance, freshness, entry_id AS best_entry_id, mode AS best_mode,
       count(*) OVER whole AS entries,
       count(*) FILTER (WHERE correctness = 'verified' AND freshness = 'current') OVER whole AS verified,
       count(*) FILTER (WHERE correctness = 'failing' AND freshness = 'current') OVER whole AS failing,
       max(recorded_at) OVER whole AS recorded_at
FROM compatibility_current
WINDOW whole AS (PARTITION BY model, platform)
ORDER BY model, platform, (freshness = 'current') DESC,
         array_position(ARRAY['verified', 'functional', 'failing', 'unknown'], correctness),
         array_position(ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted'], lifecycle),
         compatibility_current.recorded_at DESC, entry_id
"""


def upgrade() -> None:
    """Make the first schema."""
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_artifacts")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", name=op.f("uq_models_name")),
    )
    op.create_table(
        "platforms",
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("slug", name=op.f("pk_platforms")),
    )
    op.create_table(
        "results",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("stage_version", sa.BigInteger(), nullable=False),
        sa.Column("inputs_digest", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_results")),
        sa.UniqueConstraint(
            "stage", "stage_version", "inputs_digest", name=op.f("uq_results_stage_stage_version_inputs_digest")
        ),
    )
    op.create_table(
        "sources",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("hub", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("rule", postgresql.JSONB(), nullable=False),
        sa.Column("rule_digest", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_polled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint("hub", "location", "rule_digest", name=op.f("uq_sources_hub_location_rule_digest")),
    )
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("predicate", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subscriptions")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("stack_fingerprint", sa.Text(), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", "platform", name=op.f("pk_workers")),
    )
    op.create_table(
        "model_aliases",
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_model_aliases_model_id_models")),
        sa.PrimaryKeyConstraint("alias", name=op.f("pk_model_aliases")),
    )
    op.create_index(op.f("ix_model_aliases_model_id"), "model_aliases", ["model_id"], unique=False)
    op.create_table(
        "releases",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("hub", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("repo_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("configuration_digest", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("config_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("weights_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_releases_model_id_models")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint("hub", "endpoint", "repo_id", "revision", name=op.f("uq_releases_hub_endpoint_repo_id_revision")),
    )
    op.create_index(op.f("ix_releases_content_id"), "releases", ["content_id"], unique=False)
    op.create_index(op.f("ix_releases_model_id"), "releases", ["model_id"], unique=False)
    op.create_table(
        "stacks",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("components", postgresql.JSONB(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.Column("manifest_digest", sa.Text(), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("told_seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["platform"], ["platforms.slug"], name=op.f("fk_stacks_platform_platforms")),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_stacks")),
    )
    op.create_index(op.f("ix_stacks_platform"), "stacks", ["platform"], unique=False)
    op.create_table(
        "adaptations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("release_id", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("attempts_before", sa.BigInteger(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimant", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_adaptations_model_id_models")),
        sa.ForeignKeyConstraint(["platform"], ["platforms.slug"], name=op.f("fk_adaptations_platform_platforms")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_adaptations_release_id_releases")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adaptations")),
        sa.UniqueConstraint(
            "purpose", "content_id", "platform", "mode", name=op.f("uq_adaptations_purpose_content_id_platform_mode")
        ),
    )
    op.create_index(op.f("ix_adaptations_model_id"), "adaptations", ["model_id"], unique=False)
    op.create_index(op.f("ix_adaptations_release_id"), "adaptations", ["release_id"], unique=False)
    op.create_index(op.f("ix_adaptations_state_heartbeat_at"), "adaptations", ["state", "heartbeat_at"], unique=False)
    op.create_table(
        "adaptation_log",
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["adaptation_id"], ["adaptations.id"], name=op.f("fk_adaptation_log_adaptation_id_adaptations")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_adaptation_log")),
    )
    op.create_index(op.f("ix_adaptation_log_adaptation_id_number"), "adaptation_log", ["adaptation_id", "number"], unique=False)
    op.create_table(
        "artifact_links",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("linked_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["adaptation_id"], ["adaptations.id"], name=op.f("fk_artifact_links_adaptation_id_adaptations")
        ),
        sa.ForeignKeyConstraint(["sha256"], ["artifacts.sha256"], name=op.f("fk_artifact_links_sha256_artifacts")),
        sa.PrimaryKeyConstraint("sha256", "adaptation_id", "name", name=op.f("pk_artifact_links")),
    )
    op.create_index(op.f("ix_artifact_links_adaptation_id"), "artifact_links", ["adaptation_id"], unique=False)
    op.create_table(
        "checks",
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("layer", sa.Text(), nullable=False),
        sa.Column("check", sa.Text(), nullable=False),
        sa.Column("rung", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("grade", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("measured", sa.Double(), nullable=True),
        sa.Column("tolerance", sa.Double(), nullable=True),
        sa.Column("n", sa.BigInteger(), nullable=True),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_checks_adaptation_id_adaptations")),
        sa.PrimaryKeyConstraint("adaptation_id", "layer", "check", "rung", name=op.f("pk_checks")),
    )
    op.create_index(op.f("ix_checks_verdict"), "checks", ["verdict"], unique=False)
    op.create_table(
        "entries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("content_digest", sa.Text(), nullable=False),
        sa.Column("predicted", sa.Boolean(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("release_id", sa.Text(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("stack_fingerprint", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("lifecycle", sa.Text(), nullable=False),
        sa.Column("correctness", sa.Text(), nullable=False),
        sa.Column("performance", sa.Text(), nullable=False),
        sa.Column("freshness", sa.Text(), nullable=False),
        sa.Column("grade", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("checks_passed", sa.BigInteger(), nullable=False),
        sa.Column("checks_failed", sa.BigInteger(), nullable=False),
        sa.Column("checks_error", sa.BigInteger(), nullable=False),
        sa.Column("checks_not_run", sa.BigInteger(), nullable=False),
        sa.Column("known_gaps", sa.BigInteger(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("config_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("weights_live_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("detected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("staged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_token_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_entries_adaptation_id_adaptations")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_entries_model_id_models")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_entries_release_id_releases")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_entries")),
    )
    op.create_index(op.f("ix_entries_adaptation_id"), "entries", ["adaptation_id"], unique=False)
    op.create_index(op.f("ix_entries_key_digest_seq"), "entries", ["key_digest", "seq"], unique=False)
    op.create_index(op.f("ix_entries_model_id_platform_mode"), "entries", ["model_id", "platform", "mode"], unique=False)
    op.create_table(
        "measurements",
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("conditions_digest", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_measurements_adaptation_id_adaptations")),
        sa.PrimaryKeyConstraint("adaptation_id", "name", "conditions_digest", name=op.f("pk_measurements")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fields", postgresql.JSONB(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=True),
        sa.Column("hidden_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("emitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fanned_out_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_outbox_adaptation_id_adaptations")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_adaptation_id"), "outbox", ["adaptation_id"], unique=False)
    op.create_index("ix_outbox_unemitted", "outbox", ["seq"], unique=False, postgresql_where=sa.text("emitted_at IS NULL"))
    op.create_index("ix_outbox_unfanned", "outbox", ["seq"], unique=False, postgresql_where=sa.text("fanned_out_at IS NULL"))
    op.create_table(
        "result_links",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("release_id", sa.Text(), nullable=False),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.Column("linked_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_result_links_adaptation_id_adaptations")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_result_links_release_id_releases")),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name=op.f("fk_result_links_result_id_results")),
        sa.PrimaryKeyConstraint("result_id", "adaptation_id", name=op.f("pk_result_links")),
    )
    op.create_index(op.f("ix_result_links_adaptation_id"), "result_links", ["adaptation_id"], unique=False)
    op.create_index(op.f("ix_result_links_release_id"), "result_links", ["release_id"], unique=False)
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["event_id"], ["outbox.id"], name=op.f("fk_deliveries_event_id_outbox")),
        sa.ForeignKeyConstraint(
            ["subscription_id"],
            ["subscriptions.id"],
            name=op.f("fk_deliveries_subscription_id_subscriptions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("event_id", "subscription_id", name=op.f("uq_deliveries_event_id_subscription_id")),
    )
    op.create_index(
        "ix_deliveries_due", "deliveries", ["next_try_at"], unique=False, postgresql_where=sa.text("state = 'pending'")
    )
    op.create_index(op.f("ix_deliveries_subscription_id"), "deliveries", ["subscription_id"], unique=False)
    for statement in (APPEND_ONLY, VERSIONS, CURRENT, ROLLUP):
        op.execute(statement)


def downgrade() -> None:
    """Undo it."""
    for view in ("compatibility_rollup", "compatibility_current", "compatibility_versions"):
        op.execute(f"DROP VIEW {view}")
    op.execute("DROP TRIGGER entries_append_only ON entries")
    op.execute("DROP FUNCTION refuse_change()")
    op.drop_index(op.f("ix_deliveries_subscription_id"), table_name="deliveries")
    op.drop_index("ix_deliveries_due", table_name="deliveries", postgresql_where=sa.text("state = 'pending'"))
    op.drop_table("deliveries")
    op.drop_index(op.f("ix_result_links_release_id"), table_name="result_links")
    op.drop_index(op.f("ix_result_links_adaptation_id"), table_name="result_links")
    op.drop_table("result_links")
    op.drop_index("ix_outbox_unfanned", table_name="outbox", postgresql_where=sa.text("fanned_out_at IS NULL"))
    op.drop_index("ix_outbox_unemitted", table_name="outbox", postgresql_where=sa.text("emitted_at IS NULL"))
    op.drop_index(op.f("ix_outbox_adaptation_id"), table_name="outbox")
    op.drop_table("outbox")
    op.drop_table("measurements")
    op.drop_index(op.f("ix_entries_model_id_platform_mode"), table_name="entries")
    op.drop_index(op.f("ix_entries_key_digest_seq"), table_name="entries")
    op.drop_index(op.f("ix_entries_adaptation_id"), table_name="entries")
    op.drop_table("entries")
    op.drop_index(op.f("ix_checks_verdict"), table_name="checks")
    op.drop_table("checks")
    op.drop_index(op.f("ix_artifact_links_adaptation_id"), table_name="artifact_links")
    op.drop_table("artifact_links")
    op.drop_index(op.f("ix_adaptation_log_adaptation_id_number"), table_name="adaptation_log")
    op.drop_table("adaptation_log")
    op.drop_index(op.f("ix_adaptations_state_heartbeat_at"), table_name="adaptations")
    op.drop_index(op.f("ix_adaptations_release_id"), table_name="adaptations")
    op.drop_index(op.f("ix_adaptations_model_id"), table_name="adaptations")
    op.drop_table("adaptations")
    op.drop_index(op.f("ix_stacks_platform"), table_name="stacks")
    op.drop_table("stacks")
    op.drop_index(op.f("ix_releases_model_id"), table_name="releases")
    op.drop_index(op.f("ix_releases_content_id"), table_name="releases")
    op.drop_table("releases")
    op.drop_index(op.f("ix_model_aliases_model_id"), table_name="model_aliases")
    op.drop_table("model_aliases")
    op.drop_table("workers")
    op.drop_table("tokens")
    op.drop_table("subscriptions")
    op.drop_table("sources")
    op.drop_table("results")
    op.drop_table("platforms")
    op.drop_table("models")
    op.drop_table("artifacts")
