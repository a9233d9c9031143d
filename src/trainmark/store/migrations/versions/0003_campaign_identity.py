"""Identify a campaign by a digest: its directory may be moved, and another one may take its place."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the identity; two campaigns may have stood in one directory, one after the other."""
    with op.batch_alter_table("campaigns") as table:
        table.add_column(sa.Column("identity", sa.String(71)))
        table.drop_constraint("uq_campaigns_directory", type_="unique")
        table.create_unique_constraint("uq_campaigns_identity", ["identity"])


def downgrade() -> None:
    """Take the identity away."""
    with op.batch_alter_table("campaigns") as table:
        table.drop_constraint("uq_campaigns_identity", type_="unique")
        table.create_unique_constraint("uq_campaigns_directory", ["directory"])
        table.drop_column("identity")
