"""The database's tables after the newest migration (a test compares the two)."""

from sqlalchemy import (
    JSON,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("suite", String(64), nullable=False),
    Column("directory", Text, nullable=False),
    Column("suite_yaml", Text, nullable=False),
    Column("trainmark_version", String(64), nullable=False),
    # 71 characters: "sha256:" and its hexadecimal digits.
    Column("identity", String(71), unique=True),
    Column("command", Text),
)
"""Result directories; ``identity`` is null in the database of the directory itself, ``command`` in rows that an earlier
trainmark wrote."""

manifests = Table(
    "manifests",
    metadata,
    Column("fingerprint", String(71), primary_key=True),
    Column("document", JSON, nullable=False),
)
"""Environments of runs, one row for all runs with the same environment."""

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign_id", ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
    Column("case_id", String(512), nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("workload", String(64), nullable=False),
    Column("framework", String(64), nullable=False),
    Column("model", String(64), nullable=False),
    Column("precision", String(16), nullable=False),
    Column("batch_per_device", String(16), nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("devices_per_node", Integer, nullable=False),
    Column("data", String(64), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("reason", Text),
    Column("started_at", DateTime(timezone=True)),
    Column("throughput", Float),
    Column("unit", Text),
    Column("fingerprint", ForeignKey("manifests.fingerprint")),
    Column("result", JSON, nullable=False),
    UniqueConstraint("campaign_id", "case_id", "repeat"),
    Index(None, "case_id", "outcome"),
    Index(
        "ix_runs_listing",
        *("model", "framework", "precision", "batch_per_device"),
        *("nodes", "devices_per_node", "campaign_id", "case_id"),
    ),
)
"""Runs. ``throughput`` is null for every outcome except ``ok``; ``result`` is the run's document."""

certificates = Table(
    "certificates",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign_id", ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
    Column("model", String(64), nullable=False),
    Column("document", JSON, nullable=False),
    Index(None, "campaign_id"),
)
"""Certificates of equal work: per campaign one for each model, device and optimizer."""

schema_version = Table(
    "alembic_version",
    MetaData(naming_convention={"pk": "alembic_version_pkc"}),
    Column("version_num", String(32), primary_key=True),
)
"""Alembic's own table: the migration that a database has."""
