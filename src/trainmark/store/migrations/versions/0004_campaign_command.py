"""Store the command of a campaign with its hosts, because reports print it and it cannot be derived."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the command; what an earlier version wrote has none."""
    with op.batch_alter_table("campaigns") as table:
        table.add_column(sa.Column("command", sa.Text))


def downgrade() -> None:
    """Take the command away."""
    with op.batch_alter_table("campaigns") as table:
        table.drop_column("command")
