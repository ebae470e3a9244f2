"""Show the layers and the features of entries as rows."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

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


def upgrade() -> None:
    """Add the views; entries of older versions have no rows in them."""
    for statement in (LAYERS, FEATURES):
        op.execute(statement)


def downgrade() -> None:
    """Take the views away; nothing is lost with them."""
    op.execute("DROP VIEW compatibility_features")
    op.execute("DROP VIEW compatibility_layers")
