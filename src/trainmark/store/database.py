"""Every run in a database, the moment it ends: SQLite by default, anything that SQLAlchemy reaches by URL."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, insert, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from trainmark.errors import InputError, TrainmarkError
from trainmark.store.tables import campaigns, certificates, manifests, runs
from trainmark.suite import Case, Suite, dump_suite
from trainmark.words.certificate import Certificate
from trainmark.words.results import RunResult

HEAD = "0002"
"""The newest migration (``migrations/versions``)."""
_MIGRATIONS = Path(__file__).with_name("migrations")


@dataclass(frozen=True, slots=True)
class StoredCampaign:
    """A campaign's row; runs are added to it."""

    id: int
    suite: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """What a database holds of one campaign: its suite as resolved (YAML), its runs by case, their manifests.

    ``certificates`` are of equal work; none that another version of trainmark wrote and this one cannot read.
    """

    suite_yaml: str
    runs: Mapping[str, Sequence[RunResult]]
    manifests: Mapping[str, Mapping[str, Any]]
    certificates: tuple[Certificate, ...] = ()


def sqlite_url(path: Path) -> URL:
    """Return the URL of a SQLite file, whatever characters its path has."""
    return URL.create("sqlite", database=str(path))


class Store:
    """An open database of runs. Each method is one transaction; what it raises is a ``TrainmarkError``.

    ``url`` is one of SQLAlchemy's. Raises ``InputError`` when it is none, or its driver is not installed.
    """

    def __init__(self, url: str | URL) -> None:
        try:
            self._engine = create_engine(url)
        except ArgumentError:
            raise InputError("the database's address is no URL like postgresql://user@host/name") from None
        except ImportError as error:
            raise InputError(f"the database needs a driver that is not installed: {error.name}") from None
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        with self._told():
            _migrate(self._engine)

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    def campaign(self, suite: Suite, directory: str, version: str) -> StoredCampaign:
        """Return the campaign of a result directory, made when it is new.

        ``directory`` is absolute, or relative to the folder of a SQLite file.
        """
        with self._transaction() as connection:
            found = connection.scalar(select(campaigns.c.id).where(campaigns.c.directory == directory))
            if found is None:
                row = {
                    "suite": suite.name,
                    "directory": directory,
                    "suite_yaml": dump_suite(suite),
                    "trainmark_version": version,
                }
                found = connection.scalar(insert(campaigns).values(row).returning(campaigns.c.id))
        assert found is not None
        return StoredCampaign(found)

    def known_runs(self, campaign: StoredCampaign) -> set[tuple[str, int]]:
        """Return the case and the number of each run that is here and was started."""
        here = (runs.c.campaign_id == campaign.id) & runs.c.started_at.is_not(None)
        with self._transaction() as connection:
            rows = connection.execute(select(runs.c.case_id, runs.c.repeat).where(here))
            return {(case, repeat) for case, repeat in rows}

    def add(
        self, campaign: StoredCampaign, case: Case, result: RunResult, manifest: Mapping[str, Any] | None
    ) -> None:
        """Add one finished run in place of one of its number, and its manifest unless it is here already."""
        here = (runs.c.campaign_id == campaign.id) & (runs.c.case_id == case.id)
        with self._transaction() as connection:
            connection.execute(delete(runs).where(here, runs.c.repeat == result.repeat))
            if result.manifest is not None and manifest is not None:
                _add_manifest(connection, result.manifest, manifest)
            connection.execute(insert(runs).values(_row(campaign, case, result)))

    def certify(self, campaign: StoredCampaign, shown: Iterable[Certificate]) -> None:
        """Keep the certificates of a campaign, in place of those that it had."""
        rows = [
            {
                "campaign_id": campaign.id,
                "model": certificate.model,
                "document": json.loads(certificate.model_dump_json()),
            }
            for certificate in shown
        ]
        with self._transaction() as connection:
            connection.execute(delete(certificates).where(certificates.c.campaign_id == campaign.id))
            if rows:
                connection.execute(insert(certificates), rows)

    def campaigns(self) -> tuple[StoredCampaign, ...]:
        """Return the campaigns that are here, oldest first."""
        columns = (campaigns.c.id, campaigns.c.suite, campaigns.c.directory)
        with self._transaction() as connection:
            rows = connection.execute(select(*columns).order_by(campaigns.c.id))
            return tuple(StoredCampaign(*row) for row in rows)

    def runs_of(self, campaign: StoredCampaign) -> StoredRuns:
        """Return a campaign's suite, runs, manifests and certificates."""
        ours = runs.c.campaign_id == campaign.id
        found: dict[str, list[RunResult]] = {}
        with self._transaction() as connection:
            suite = connection.scalar(select(campaigns.c.suite_yaml).where(campaigns.c.id == campaign.id))
            rows = connection.execute(
                select(runs.c.case_id, runs.c.result).where(ours).order_by(runs.c.repeat)
            )
            for case_id, result in rows:
                found.setdefault(case_id, []).append(RunResult.model_validate(result))
            used = select(runs.c.fingerprint).where(ours)
            documents = connection.execute(select(manifests).where(manifests.c.fingerprint.in_(used)))
            kept = {row.fingerprint: row.document for row in documents}
            of_campaign = certificates.c.campaign_id == campaign.id
            shown = connection.scalars(
                select(certificates.c.document).where(of_campaign).order_by(certificates.c.id)
            )
            read = tuple(filter(None, map(_certificate, shown)))
        return StoredRuns(str(suite), found, kept, read)

    def throughputs(self, case_id: str) -> dict[int, list[float]]:
        """Return the throughputs of a case's ``ok`` runs in every campaign, by the campaign's number."""
        chosen = (runs.c.case_id == case_id) & (runs.c.outcome == "ok")
        found: dict[int, list[float]] = {}
        with self._transaction() as connection:
            rows = connection.execute(select(runs.c.campaign_id, runs.c.throughput).where(chosen))
            for number, throughput in rows:
                found.setdefault(number, []).append(throughput)
        return found

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._told(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn the database's errors into ours, without the password that its address may hold."""
        try:
            yield
        except DBAPIError as error:
            url = self._engine.url
            name = url.database if url.get_backend_name() == "sqlite" else url.render_as_string()
            raise TrainmarkError(
                f"{name}: the database cannot be used: {str(error.orig).splitlines()[0]}"
            ) from None


def _row(campaign: StoredCampaign, case: Case, result: RunResult) -> dict[str, Any]:
    measurement = result.measurement
    return {
        "campaign_id": campaign.id,
        "case_id": case.id,
        "repeat": result.repeat,
        "workload": case.workload,
        "framework": case.framework,
        "model": case.model,
        "precision": case.precision.value,
        "batch_per_device": str(case.batch_per_device),
        "nodes": case.nodes,
        "devices_per_node": case.devices_per_node,
        "data": case.data,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "started_at": result.started_at,
        "throughput": measurement.throughput if measurement else None,
        "unit": measurement.unit if measurement else None,
        "fingerprint": result.manifest,
        "result": json.loads(result.model_dump_json()),
    }


def _certificate(document: Any) -> Certificate | None:
    try:
        return Certificate.model_validate(document)
    except ValidationError:
        return None


def _add_manifest(connection: Connection, fingerprint: str, document: Mapping[str, Any]) -> None:
    known = connection.scalar(select(manifests.c.fingerprint).where(manifests.c.fingerprint == fingerprint))
    if known is None:
        connection.execute(insert(manifests).values(fingerprint=fingerprint, document=dict(document)))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # Python's module would begin transactions by itself, and none for CREATE TABLE: a migration that fails
    # (on a full disk) would stay half done.
    connection.isolation_level = None
    cursor = connection.cursor()
    # FULL: a run that was reported as stored survives a power cut.
    for pragma in ("foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _migrate(engine: Engine) -> None:
    """Bring the database to ``HEAD``; Alembic is loaded only when there is something to do."""
    with engine.connect() as connection:
        if engine.dialect.has_table(connection, "alembic_version"):
            version = connection.scalar(text("SELECT version_num FROM alembic_version"))
            if version == HEAD:
                return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    configuration = Config()
    configuration.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        try:
            command.upgrade(configuration, "head")
        except CommandError as error:
            raise TrainmarkError(
                f"{engine.url.database}: made by another version of trainmark: {error}"
            ) from None
