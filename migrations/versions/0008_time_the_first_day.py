"""Time the first day: what took how long on each platform, and a league of them."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NONNEGATIVE = """
CREATE FUNCTION nonnegative_s(since timestamptz, until timestamptz) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN until >= since THEN extract(epoch FROM until - since)::double precision END
$$
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


def upgrade() -> None:
    """Add the function and the views; they read what is there."""
    for statement in (NONNEGATIVE, CLOCK, LEAGUE):
        op.execute(statement)


def downgrade() -> None:
    """Take the views away; nothing is lost with them."""
    op.execute("DROP VIEW day_zero_league")
    op.execute("DROP VIEW day_zero_clock")
    op.execute("DROP FUNCTION nonnegative_s")
