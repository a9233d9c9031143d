"""Every run in a database, the moment it ends: SQLite by default, anything that SQLAlchemy reaches by URL."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    case,
    create_engine,
    delete,
    event,
    func,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from trainmark.errors import InputError, TrainmarkError
from trainmark.measure.pooling import require_different_runs, require_one_identity
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.manifest import Manifest
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results, RunResult, StoredManifest
from trainmark.schema.suite import Suite
from trainmark.store.tables import campaigns, certificates, manifests, runs
from trainmark.suite import dump_suite, parse_suite

HEAD = "0004"
"""The newest migration (``migrations/versions``)."""
_NO_URL = "the database's address is no URL like postgresql://user@host/name"
_MIGRATIONS = Path(__file__).with_name("migrations")


@dataclass(frozen=True, slots=True)
class StoredCampaign:
    """A campaign's row; runs are added to it. ``command`` is null where an earlier trainmark wrote it."""

    id: int
    suite: str = ""
    directory: str = ""
    command: str | None = None


_MANIFEST: TypeAdapter[StoredManifest] = TypeAdapter(StoredManifest)


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """What a database holds of one campaign: its suite as resolved (YAML), its runs by case, their manifests.

    ``certificates`` are of equal work; none that another version of trainmark wrote and this one cannot read.
    """

    suite_yaml: str
    runs: Mapping[str, Sequence[RunResult]]
    manifests: Mapping[str, StoredManifest]
    certificates: tuple[Certificate, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """A campaign in a list: how many cases and runs of it are here, how many ended ok, and when the first started."""

    id: int
    suite: str
    directory: str
    cases: int
    runs: int
    ok: int
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Added:
    """What adding a result directory did: the campaign's number, and its runs by what became of them.

    ``changed`` runs were here with another result.
    """

    campaign: int
    new: int
    changed: int
    known: int


def sqlite_url(path: Path) -> URL:
    """Return the URL of a SQLite file, whatever characters its path has."""
    return URL.create("sqlite", database=str(path))


def database_url(address: str) -> URL:
    """Return the URL of a database, given as one of SQLAlchemy's URLs or as the path of a SQLite file.

    Raises ``InputError`` for a URL that is none.
    """
    if "://" not in address:
        return sqlite_url(Path(address))
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise InputError(_NO_URL) from None
    # SQLAlchemy's default for PostgreSQL is another driver than the one that trainmark's extra installs.
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def existing_store(address: str) -> "Store":
    """Open a database to read what is in it; raise ``InputError`` where there is none, or none of trainmark's.

    ``address`` is a URL or a SQLite file's path. Nothing is made.
    """
    url = database_url(address)
    if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).is_file()):
        raise InputError(f"{url.database or address}: there is no such database")
    return Store(url, _of_trainmark)


def identity(results: Results) -> str:
    """Return what a campaign goes by wherever its directory lies: its suite's name, and its first run's start.

    The start is known to the microsecond, the run's length to the nanosecond; both stay when the directory is moved
    and when it grows. Raises ``InputError`` when no run was started: there is nothing to go by, and nothing to add.
    """
    runs = [run for found in results.cases for run in found.runs]
    started = [(run.started_at.astimezone(UTC), run.duration_s) for run in runs if run.started_at is not None]
    if not started:
        raise InputError("no run of it was started: there is nothing to add")
    moment, length = min(started, key=lambda pair: pair[0])
    words = (results.suite, moment.isoformat(timespec="microseconds"), repr(length))
    return f"sha256:{hashlib.sha256(chr(10).join(words).encode()).hexdigest()}"


def document_of(result: RunResult) -> Any:
    """Return a run's result as a database keeps it."""
    return json.loads(result.model_dump_json())


class Store:
    """An open database of runs. Each method is one transaction; what it raises is a ``TrainmarkError``.

    ``url`` is one of SQLAlchemy's. ``ready`` is called with the engine before an older database is brought up to
    date. Raises ``InputError`` when the URL is none, or its driver is not installed.
    """

    def __init__(self, url: str | URL, ready: Callable[[Engine], None] = lambda _: None) -> None:
        try:
            self._engine = create_engine(database_url(url) if isinstance(url, str) else url)
        except ArgumentError:
            raise InputError(_NO_URL) from None
        except ImportError as error:
            raise InputError(f"the database needs a driver that is not installed: {error.name}") from None
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        with self._told():
            ready(self._engine)
            _migrate(self._engine)

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    def campaign(
        self, suite: Suite, directory: str, version: str, command: str | None = None
    ) -> StoredCampaign:
        """Return the campaign of a result directory, made when it is new, with suite and command as they are now.

        ``directory`` is absolute, or relative to the folder of a SQLite file. Without a ``command`` it keeps its own.
        """
        suite_yaml = dump_suite(suite)
        with self._transaction() as connection:
            ours = campaigns.c.directory == directory
            found = connection.scalar(select(campaigns.c.id).where(ours))
            if found is not None:
                changed = campaigns.c.suite_yaml != suite_yaml
                connection.execute(update(campaigns).where(ours, changed).values(suite_yaml=suite_yaml))
                if command is not None:
                    connection.execute(update(campaigns).where(ours).values(command=command))
            else:
                row = {
                    "suite": suite.name,
                    "directory": directory,
                    "suite_yaml": suite_yaml,
                    "trainmark_version": version,
                    "command": command,
                }
                found = connection.scalar(insert(campaigns).values(row).returning(campaigns.c.id))
        assert found is not None
        return StoredCampaign(found)

    def known_runs(self, campaign: StoredCampaign) -> dict[tuple[str, int], Any]:
        """Return what is kept of each run that is here and was started (``document_of``), by its case and number."""
        here = (runs.c.campaign_id == campaign.id) & runs.c.started_at.is_not(None)
        with self._transaction() as connection:
            rows = connection.execute(select(runs.c.case_id, runs.c.repeat, runs.c.result).where(here))
            return {(case, repeat): result for case, repeat, result in rows}

    def add(
        self, campaign: StoredCampaign, case: Case, result: RunResult, manifest: StoredManifest | None
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
        with self._transaction() as connection:
            _certify(connection, campaign, shown)

    def put(self, results: Results, suite_yaml: str, directory: str) -> Added:
        """Add what a result directory holds and the database does not; adding it again changes nothing.

        ``suite_yaml`` is the suite as resolved, ``directory`` absolute. A directory that was moved is the campaign
        that it was. Raises ``InputError`` when it holds no run that was started.
        """
        name = identity(results)
        with self._told():
            for attempt in range(_ATTEMPTS):
                try:
                    with self._engine.begin() as connection:
                        number = _campaign(connection, name, results, suite_yaml, directory)
                        return _put(connection, number, results)
                except IntegrityError:
                    # Somebody else added the same campaign or manifest at the same moment: now it is known.
                    if attempt == _ATTEMPTS - 1:
                        raise
        raise AssertionError

    def summaries(self) -> tuple[CampaignSummary, ...]:
        """Return the campaigns that are here, with how much there is of each, oldest entry first."""
        ok = func.sum(case((runs.c.outcome == Outcome.OK.value, 1), else_=0))
        counts = (
            select(campaigns.c.id, campaigns.c.suite, campaigns.c.directory)
            .add_columns(func.count(runs.c.case_id.distinct()), func.count(runs.c.id), ok)
            .add_columns(func.min(runs.c.started_at))
            .outerjoin_from(campaigns, runs, runs.c.campaign_id == campaigns.c.id)
            .group_by(campaigns.c.id, campaigns.c.suite, campaigns.c.directory)
            .order_by(campaigns.c.id)
        )
        with self._transaction() as connection:
            rows = connection.execute(counts).all()
        return tuple(replace(CampaignSummary(*row), started_at=_with_zone(row[-1])) for row in rows)

    def campaigns(self) -> tuple[StoredCampaign, ...]:
        """Return the campaigns that are here, oldest first."""
        columns = (campaigns.c.id, campaigns.c.suite, campaigns.c.directory, campaigns.c.command)
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
            kept = {row.fingerprint: _MANIFEST.validate_python(row.document) for row in documents}
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
            told = str(error.orig).splitlines()[0]
            raise TrainmarkError(f"{_name(self._engine.url)}: the database cannot be used: {told}") from None


_ATTEMPTS = 3


def _of_trainmark(engine: Engine) -> None:
    """Raise ``InputError`` for a database that is not one of trainmark's, before anything is written into it."""
    with engine.connect() as connection:
        has = engine.dialect.has_table
        if not (has(connection, "alembic_version") and has(connection, "campaigns")):
            raise InputError(f"{_name(engine.url)}: holds no results of trainmark")


def _campaign(
    connection: Connection, name: str, results: Results, suite_yaml: str, directory: str
) -> StoredCampaign:
    """Return the campaign of an identity, made when it is new, with its directory and its command as they are now."""
    ours = campaigns.c.identity == name
    # A write comes first: SQLite lets no reader become a writer when another one has written meanwhile.
    connection.execute(update(campaigns).where(ours).values(directory=directory))
    if results.command is not None:
        connection.execute(update(campaigns).where(ours).values(command=results.command))
    found = connection.scalar(select(campaigns.c.id).where(ours))
    if found is not None:
        joined = _joined(connection, found, suite_yaml)
        connection.execute(update(campaigns).where(ours).values(suite_yaml=joined))
    if found is None:
        row = {
            "suite": results.suite,
            "directory": directory,
            "suite_yaml": suite_yaml,
            "trainmark_version": results.trainmark_version,
            "identity": name,
            "command": results.command,
        }
        found = connection.scalar(insert(campaigns).values(row).returning(campaigns.c.id))
    assert found is not None
    return StoredCampaign(found)


def _joined(connection: Connection, campaign: int, suite_yaml: str) -> str:
    """Return a campaign's suite as it is now, with those cases of it as it was whose runs stay here."""
    before = connection.scalar(select(campaigns.c.suite_yaml).where(campaigns.c.id == campaign))
    if before in (None, suite_yaml):
        return suite_yaml
    try:
        was, now = (parse_suite(str(text), "suite of the database") for text in (before, suite_yaml))
    except InputError:
        return suite_yaml
    held = set(connection.scalars(select(runs.c.case_id).where(runs.c.campaign_id == campaign).distinct()))
    ids = {case.id for case in now.cases}
    stay = [case for case in was.cases if case.id not in ids and held & {case.id, case.earlier_id}]
    if not stay:
        return suite_yaml
    joined = {
        "cases": (*now.cases, *stay),
        "datasets": {**was.datasets, **now.datasets},
        "cards": tuple(dict.fromkeys((*now.cards, *was.cards))),
    }
    return dump_suite(now.model_copy(update=joined))


def _put(connection: Connection, campaign: StoredCampaign, results: Results) -> Added:
    ours = runs.c.campaign_id == campaign.id
    rows = connection.execute(select(runs.c.case_id, runs.c.repeat, runs.c.result).where(ours))
    here = {(case_id, repeat): result for case_id, repeat, result in rows}
    new = changed = known = 0
    for found in results.cases:
        put = {run.repeat for run in found.runs}
        # Runs that are gone from the directory stay here.
        stay = [
            RunResult.model_validate(result)
            for (case_id, repeat), result in here.items()
            if case_id == found.case.id and repeat not in put
        ]
        require_different_runs(found.case.id, [*stay, *found.runs])
        require_one_identity(found.case.id, [*stay, *found.runs])
        for run in found.runs:
            before = here.get((found.case.id, run.repeat))
            row = _row(campaign, found.case, run)
            if before == row["result"]:
                known += 1
                continue
            new, changed = (new + 1, changed) if before is None else (new, changed + 1)
            connection.execute(
                delete(runs).where(ours, runs.c.case_id == found.case.id, runs.c.repeat == run.repeat)
            )
            if run.manifest is not None:
                _add_manifest(connection, run.manifest, results.manifests.get(run.manifest, {}))
            connection.execute(insert(runs).values(row))
    _certify(connection, campaign, results.certificates)
    return Added(campaign.id, new, changed, known)


def _certify(connection: Connection, campaign: StoredCampaign, shown: Iterable[Certificate]) -> None:
    rows = [
        {
            "campaign_id": campaign.id,
            "model": certificate.model,
            "document": json.loads(certificate.model_dump_json()),
        }
        for certificate in shown
    ]
    ours = certificates.c.campaign_id == campaign.id
    before = connection.scalars(select(certificates.c.document).where(ours).order_by(certificates.c.id))
    if list(before) == [row["document"] for row in rows]:
        return
    connection.execute(delete(certificates).where(ours))
    if rows:
        connection.execute(insert(certificates), rows)


def _with_zone(moment: datetime | None) -> datetime | None:
    """Return a stored time with its zone: SQLite keeps none, and all of ours are UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _name(url: URL) -> str:
    """Return a database's address for a message, without its password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()


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
        "result": document_of(result),
    }


def _certificate(document: Any) -> Certificate | None:
    try:
        return Certificate.model_validate(document)
    except ValidationError:
        return None


def _add_manifest(connection: Connection, fingerprint: str, manifest: StoredManifest) -> None:
    known = connection.scalar(select(manifests.c.fingerprint).where(manifests.c.fingerprint == fingerprint))
    if known is None:
        document = manifest.model_dump(mode="json") if isinstance(manifest, Manifest) else dict(manifest)
        connection.execute(insert(manifests).values(fingerprint=fingerprint, document=document))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # Python's module would begin transactions by itself, and none for CREATE TABLE: a migration that fails
    # (on a full disk) would stay half done.
    connection.isolation_level = None
    cursor = connection.cursor()
    # FULL: a run that was reported as stored survives a power cut.
    for pragma in ("foreign_keys=ON", "synchronous=FULL", "busy_timeout=10000"):
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
    with engine.connect() as connection, _table_by_table(connection), connection.begin():
        configuration.attributes["connection"] = connection
        try:
            command.upgrade(configuration, "head")
        except CommandError as error:
            raise TrainmarkError(
                f"{_name(engine.url)}: made by another version of trainmark: {error}"
            ) from None


@contextmanager
def _table_by_table(connection: Connection) -> Iterator[None]:
    """Let SQLite replace a table: that drops it, and with foreign keys the rows that belong to its own would go too."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite" or driver is None:
        yield
        return
    # The journal's mode stays with the file; neither can be changed inside a transaction.
    for pragma in ("journal_mode=WAL", "foreign_keys=OFF"):
        driver.cursor().execute(f"PRAGMA {pragma}")
    try:
        yield
    finally:
        driver.cursor().execute("PRAGMA foreign_keys=ON")
