"""Certificates of equal work."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "certificates",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("campaign_id", sa.Integer, nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_certificates"),
        sa.ForeignKeyConstraint(
            ["campaign_id"],
            ["campaigns.id"],
            name="fk_certificates_campaign_id_campaigns",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_certificates_campaign_id", "certificates", ["campaign_id"])


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("certificates")
