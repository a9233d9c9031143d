"""Index what a list of results is filtered by: it reads no run's document, however many there are."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_BEFORE = ("model", "framework", "precision")
_LISTED = (*_BEFORE, "batch_per_device", "nodes", "devices_per_node", "campaign_id", "case_id")


def upgrade() -> None:
    """Replace the index of three axes by one of all that a list shows."""
    op.drop_index("ix_runs_model_framework_precision", "runs")
    op.create_index("ix_runs_listing", "runs", _LISTED)


def downgrade() -> None:
    """Restore the index of three axes."""
    op.drop_index("ix_runs_listing", "runs")
    op.create_index("ix_runs_model_framework_precision", "runs", _BEFORE)
