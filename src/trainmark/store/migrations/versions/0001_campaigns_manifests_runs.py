"""Campaigns, manifests and runs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("suite", sa.String(64), nullable=False),
        sa.Column("directory", sa.Text, nullable=False),
        sa.Column("suite_yaml", sa.Text, nullable=False),
        sa.Column("trainmark_version", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
        sa.UniqueConstraint("directory", name="uq_campaigns_directory"),
    )
    op.create_table(
        "manifests",
        sa.Column("fingerprint", sa.String(71), nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_manifests"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("campaign_id", sa.Integer, nullable=False),
        sa.Column("case_id", sa.String(512), nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("workload", sa.String(64), nullable=False),
        sa.Column("framework", sa.String(64), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("precision", sa.String(16), nullable=False),
        sa.Column("batch_per_device", sa.String(16), nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("devices_per_node", sa.Integer, nullable=False),
        sa.Column("data", sa.String(64), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("throughput", sa.Float),
        sa.Column("unit", sa.Text),
        sa.Column("fingerprint", sa.String(71)),
        sa.Column("result", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaigns.id"], name="fk_runs_campaign_id_campaigns", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["fingerprint"], ["manifests.fingerprint"], name="fk_runs_fingerprint_manifests"
        ),
        sa.UniqueConstraint("campaign_id", "case_id", "repeat", name="uq_runs_campaign_id_case_id_repeat"),
    )
    op.create_index("ix_runs_case_id_outcome", "runs", ["case_id", "outcome"])
    op.create_index("ix_runs_model_framework_precision", "runs", ["model", "framework", "precision"])


def downgrade() -> None:
    """Remove the three tables."""
    op.drop_table("runs")
    op.drop_table("manifests")
    op.drop_table("campaigns")
