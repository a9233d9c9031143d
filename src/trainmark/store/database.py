"""The database of runs, written as each run ends: SQLite by default, or any database with an SQLAlchemy URL."""

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    case,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from trainmark.errors import InputError, TrainmarkError
from trainmark.measure.pooling import fingerprint, require_different_runs, require_one_identity
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.manifest import Manifest
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results, RunResult, StoredManifest
from trainmark.schema.suite import Suite
from trainmark.store.tables import campaigns, certificates, manifests, metadata, runs, schema_version
from trainmark.suite import dump_suite, parse_suite

HEAD = "0005"
"""The newest migration (``migrations/versions``)."""
_NO_URL = "the database's address is not a URL such as postgresql://user@host/name"
_MIGRATIONS = Path(__file__).with_name("migrations")


@dataclass(frozen=True, slots=True)
class StoredCampaign:
    """A campaign's row; runs are added to it. ``command`` is None if an earlier trainmark wrote it."""

    id: int
    suite: str = ""
    directory: str = ""
    command: str | None = None


_MANIFEST: TypeAdapter[StoredManifest] = TypeAdapter(StoredManifest)


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """One campaign in a database: its resolved suite (YAML), its runs by case, their manifests.

    ``certificates`` are those of equal work, without any that only another version of trainmark can read.
    """

    suite_yaml: str
    runs: Mapping[str, Sequence[RunResult]]
    manifests: Mapping[str, StoredManifest]
    certificates: tuple[Certificate, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """A campaign in a list: the numbers of its cases, runs and ``ok`` runs, and the start of its first run."""

    id: int
    suite: str
    directory: str
    cases: int
    runs: int
    ok: int
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding a result directory: the campaign's number, and the numbers of its runs.

    ``changed`` runs were in the database with another result, ``known`` ones with the same.
    """

    campaign: int
    new: int
    changed: int
    known: int


def sqlite_url(path: Path) -> URL:
    """Return the URL of a SQLite file; its path may have any characters."""
    return URL.create("sqlite", database=str(path))


def database_url(address: str) -> URL:
    """Return the URL of a database, given as one of SQLAlchemy's URLs or as the path of a SQLite file.

    Raises ``InputError`` for an invalid URL.
    """
    if "://" not in address:
        return sqlite_url(Path(address))
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise InputError(_NO_URL) from None
    # SQLAlchemy's default driver for PostgreSQL is not the one that trainmark's extra installs.
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def existing_store(address: str) -> "Store":
    """Open an existing database; raise ``InputError`` if it is missing or not one of trainmark's.

    ``address`` is a URL or a SQLite file's path. No database is created. A SQLite file in a folder that cannot be
    written is opened to be read.
    """
    url = database_url(address)
    if url.get_backend_name() != "sqlite":
        return Store(url, _of_trainmark)
    if not (url.database and Path(url.database).is_file()):
        raise InputError(f"{url.database or address}: no such database")
    path = Path(url.database)
    return Store(url, _of_trainmark) if os.access(path.parent, os.W_OK) else reading_store(path)


def reading_store(path: Path) -> "Store":
    """Open a SQLite file of this version to read it; it is not changed, so an older one is not migrated but refused.

    Raises ``InputError`` if it is missing, and ``TrainmarkError`` if it cannot be read as it is.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such database")
    query = {"mode": "ro", "uri": "true"}
    log = path.with_name(f"{path.name}-wal")
    if not os.access(path.parent, os.W_OK) and not (log.is_file() and log.stat().st_size):
        # SQLite would create the files of its log there; without a log, the file itself is whole.
        query["immutable"] = "1"
    return Store(
        URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}", query=query), _of_trainmark
    )


def identity(results: Results) -> str:
    """Return a campaign's identity, which does not depend on its directory: a digest of suite name and first run.

    The first run's start has microseconds and its duration nanoseconds; both stay the same when the directory is moved
    or gets more runs. Raises ``InputError`` if no run was started.
    """
    runs = [run for found in results.cases for run in found.runs]
    started = [(run.started_at.astimezone(UTC), run.duration_s) for run in runs if run.started_at is not None]
    if not started:
        raise InputError("nothing to add: none of its runs was started")
    moment, length = min(started, key=lambda pair: pair[0])
    words = (results.suite, moment.isoformat(timespec="microseconds"), repr(length))
    return _digest(chr(10).join(words))


def document_of(result: RunResult) -> Any:
    """Return a run's result in the form stored in the database."""
    return json.loads(result.model_dump_json())


class Store:
    """An open database of runs. Each method is one transaction; its errors are ``TrainmarkError``.

    ``url`` is an SQLAlchemy URL. ``ready`` is called with the engine before an older database is migrated. Raises
    ``InputError`` if the URL is invalid or its driver is not installed.
    """

    def __init__(self, url: str | URL, ready: Callable[[Engine], None] = lambda _: None) -> None:
        try:
            self._engine = create_engine(database_url(url) if isinstance(url, str) else url)
        except ArgumentError:
            raise InputError(_NO_URL) from None
        except ImportError as error:
            raise InputError(f"the driver of the database is not installed: {error.name}") from None
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        with self._converted_errors():
            ready(self._engine)
            _migrate(self._engine)

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    def campaign(
        self, suite: Suite, directory: str, version: str, command: str | None = None
    ) -> StoredCampaign:
        """Return the campaign of a result directory; create or update it with the current suite and command.

        ``directory`` is absolute, or relative to the folder of a SQLite file. Without a ``command``
        the stored one stays.
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
        """Return the stored document of each started run (``document_of``), by case and number."""
        here = (runs.c.campaign_id == campaign.id) & runs.c.started_at.is_not(None)
        with self._transaction() as connection:
            rows = connection.execute(select(runs.c.case_id, runs.c.repeat, runs.c.result).where(here))
            return {(case, repeat): result for case, repeat, result in rows}

    def add(
        self, campaign: StoredCampaign, case: Case, result: RunResult, manifest: StoredManifest | None
    ) -> None:
        """Add one finished run, replacing a run with the same number, and its manifest unless it is stored."""
        here = (runs.c.campaign_id == campaign.id) & (runs.c.case_id == case.id)
        with self._transaction() as connection:
            connection.execute(delete(runs).where(here, runs.c.repeat == result.repeat))
            if result.manifest is not None and manifest is not None:
                _add_manifest(connection, result.manifest, manifest)
            connection.execute(insert(runs).values(_row(campaign, case, result)))

    def remove(self, campaign: StoredCampaign, names: Iterable[tuple[str, int]]) -> None:
        """Remove runs of a campaign, by case id and repeat."""
        with self._transaction() as connection:
            for case_id, repeat in names:
                here = (runs.c.campaign_id == campaign.id) & (runs.c.case_id == case_id)
                connection.execute(delete(runs).where(here, runs.c.repeat == repeat))

    def certify(self, campaign: StoredCampaign, shown: Iterable[Certificate]) -> None:
        """Store the certificates of a campaign, replacing its earlier ones."""
        with self._transaction() as connection:
            _certify(connection, campaign, shown)

    def put(self, results: Results, suite_yaml: str, directory: str) -> Added:
        """Add the runs of a result directory that the database does not have; adding it again changes nothing.

        ``suite_yaml`` is the resolved suite, ``directory`` absolute. A moved directory is still the same campaign.
        A manifest whose key the database has for another environment is stored under a key of its own: documents name
        their manifests themselves, and none may change what another's runs are said to have run on.
        Raises ``InputError`` if the directory has no started run.
        """
        name = identity(results)
        with self._converted_errors():
            for attempt in range(_ATTEMPTS):
                try:
                    with self._engine.begin() as connection:
                        number = _campaign(connection, name, results, suite_yaml, directory)
                        return _put(connection, number, _with_own_manifests(connection, results))
                except IntegrityError:
                    # Another process added the same campaign or manifest at the same time: the next attempt finds it.
                    if attempt == _ATTEMPTS - 1:
                        raise
        raise AssertionError

    def summaries(self) -> tuple[CampaignSummary, ...]:
        """Return the stored campaigns with their numbers of cases and runs, oldest entry first."""
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
        return tuple(replace(CampaignSummary(*row), started_at=with_zone(row[-1])) for row in rows)

    def campaigns(self) -> tuple[StoredCampaign, ...]:
        """Return the stored campaigns, oldest first."""
        columns = (campaigns.c.id, campaigns.c.suite, campaigns.c.directory, campaigns.c.command)
        with self._transaction() as connection:
            rows = connection.execute(select(*columns).order_by(campaigns.c.id))
            return tuple(StoredCampaign(*row) for row in rows)

    def stored_campaign(self, number: int) -> StoredCampaign | None:
        """Return the campaign with a number, or None."""
        columns = (campaigns.c.id, campaigns.c.suite, campaigns.c.directory, campaigns.c.command)
        with self._transaction() as connection:
            row = connection.execute(select(*columns).where(campaigns.c.id == number)).first()
        return None if row is None else StoredCampaign(*row)

    def runs_of(self, campaign: StoredCampaign, cases: Collection[str] | None = None) -> StoredRuns:
        """Return a campaign's suite, runs, manifests and certificates; with ``cases`` the runs of these cases alone."""
        with self._transaction() as connection:
            return _stored_runs(connection, {campaign.id: cases})[campaign.id]

    def runs_of_several(
        self, cases: Mapping[int, Collection[str]]
    ) -> list[tuple[StoredCampaign, StoredRuns]]:
        """Return what ``runs_of`` does for some cases of several campaigns, by few queries, in the order of ``cases``.

        Numbers without a campaign are left out.
        """
        columns = (campaigns.c.id, campaigns.c.suite, campaigns.c.directory, campaigns.c.command)
        with self._transaction() as connection:
            rows = connection.execute(select(*columns).where(campaigns.c.id.in_(cases)))
            named = {row.id: StoredCampaign(*row) for row in rows}
            stored = _stored_runs(connection, {number: cases[number] for number in cases if number in named})
        return [(named[number], found) for number, found in stored.items()]

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
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that only reads; errors are ``TrainmarkError``."""
        with self._transaction() as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._converted_errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Convert database errors to ``TrainmarkError``, without a password from the database's address.

        A full disk is the ``OSError`` that it is of any other file.
        """
        try:
            yield
        except DBAPIError as error:
            if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, "No space left on device", _name(self._engine.url)) from None
            reason = str(error.orig).splitlines()[0]
            raise TrainmarkError(
                f"{_name(self._engine.url)}: the database cannot be used: {reason}"
            ) from None


def _stored_runs(
    connection: Connection, wanted: Mapping[int, Collection[str] | None]
) -> dict[int, StoredRuns]:
    """Return the runs of campaigns by their numbers: of all cases (None), or of some."""
    ours: ColumnElement[bool] = runs.c.campaign_id.in_(wanted)
    names = {name for cases in wanted.values() for name in cases or ()}
    if None not in wanted.values():
        ours &= runs.c.case_id.in_(names)
    suites = {
        row.id: str(row.suite_yaml)
        for row in connection.execute(
            select(campaigns.c.id, campaigns.c.suite_yaml).where(campaigns.c.id.in_(wanted))
        )
    }
    found: dict[int, dict[str, list[RunResult]]] = {number: {} for number in wanted}
    columns = (runs.c.campaign_id, runs.c.case_id, runs.c.result)
    for number, case_id, result in connection.execute(select(*columns).where(ours).order_by(runs.c.repeat)):
        cases = wanted[number]
        if cases is None or case_id in cases:
            found[number].setdefault(case_id, []).append(RunResult.model_validate(result))
    used = {run.manifest for of in found.values() for each in of.values() for run in each} - {None}
    documents = connection.execute(select(manifests).where(manifests.c.fingerprint.in_(used)))
    stored = {row.fingerprint: _MANIFEST.validate_python(row.document) for row in documents}
    certified: dict[int, list[Certificate]] = {number: [] for number in wanted}
    of_campaigns = certificates.c.campaign_id.in_(wanted)
    shown = select(certificates.c.campaign_id, certificates.c.document).where(of_campaigns)
    for number, document in connection.execute(shown.order_by(certificates.c.id)):
        if (certificate := _certificate(document)) is not None:
            certified[number].append(certificate)
    return {
        number: StoredRuns(
            suites.get(number, ""),
            found[number],
            _manifests_of(found[number], stored),
            tuple(certified[number]),
        )
        for number in wanted
    }


def _manifests_of(
    found: Mapping[str, Sequence[RunResult]], stored: Mapping[str, StoredManifest]
) -> dict[str, StoredManifest]:
    """Return the manifests that runs name, as far as they are stored."""
    used = dict.fromkeys(run.manifest for each in found.values() for run in each)
    return {name: stored[name] for name in used if name is not None and name in stored}


_ATTEMPTS = 3


def _of_trainmark(engine: Engine) -> None:
    """Raise ``InputError`` for a database that is not one of trainmark's, before anything is written to it."""
    with engine.connect() as connection:
        has = engine.dialect.has_table
        if not (has(connection, "alembic_version") and has(connection, "campaigns")):
            raise InputError(f"{_name(engine.url)}: contains no results of trainmark")


def _campaign(
    connection: Connection, name: str, results: Results, suite_yaml: str, directory: str
) -> StoredCampaign:
    """Return the campaign with an identity; create or update it with the current directory and command."""
    ours = campaigns.c.identity == name
    # Write first: a SQLite transaction that starts by reading cannot write once another one has written.
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
    """Return a campaign's current suite plus those cases of its stored suite that still have runs."""
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
        # Runs that were removed from the directory stay in the database.
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


def _with_own_manifests(connection: Connection, results: Results) -> Results:
    """Return results without a manifest whose key the database has for another environment."""
    here = select(manifests).where(manifests.c.fingerprint.in_(results.manifests))
    stored = {row.fingerprint: _MANIFEST.validate_python(row.document) for row in connection.execute(here)}
    others = {
        key: _digest(f"{key} {_environment(manifest)}")
        for key, manifest in results.manifests.items()
        if key in stored and _environment(stored[key]) != _environment(manifest)
    }
    if not others:
        return results
    cases = tuple(
        found.model_copy(
            update={
                "runs": tuple(
                    run.model_copy(update={"manifest": others.get(run.manifest or "", run.manifest)})
                    for run in found.runs
                )
            }
        )
        for found in results.cases
    )
    renamed = {others.get(key, key): manifest for key, manifest in results.manifests.items()}
    return results.model_copy(update={"cases": cases, "manifests": renamed})


def _environment(manifest: StoredManifest) -> str:
    """Return a digest of an environment; one that only another version can read is compared as a whole."""
    if isinstance(manifest, Manifest):
        return fingerprint(manifest)
    return _digest(json.dumps(manifest, sort_keys=True, default=str))


def _digest(words: str) -> str:
    return f"sha256:{hashlib.sha256(words.encode()).hexdigest()}"


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


def with_zone(moment: datetime | None) -> datetime | None:
    """Return a stored time with its zone: SQLite stores none, and all stored times are UTC."""
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
    # Python's sqlite3 would begin transactions implicitly, but not for CREATE TABLE: a migration that fails
    # (on a full disk) would be left half done.
    connection.isolation_level = None
    cursor = connection.cursor()
    # FULL: a run that was reported as stored survives a power cut.
    for pragma in ("foreign_keys=ON", "synchronous=FULL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _migrate(engine: Engine) -> None:
    """Migrate the database to ``HEAD``; Alembic is loaded only for one that an earlier trainmark made."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        if schema_version.name in tables and connection.scalar(select(schema_version.c.version_num)) == HEAD:
            return
    if not tables:
        with engine.connect() as connection, _table_by_table(connection), connection.begin():
            metadata.create_all(connection)
            schema_version.create(connection, checkfirst=True)
            if connection.scalar(select(schema_version.c.version_num)) is None:
                connection.execute(insert(schema_version).values(version_num=HEAD))
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
    """Disable SQLite's foreign keys during a migration, because replacing a table would delete dependent rows."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite" or driver is None:
        yield
        return
    # The journal's mode is stored in the file; neither can be changed within a transaction.
    for pragma in ("journal_mode=WAL", "foreign_keys=OFF"):
        driver.cursor().execute(f"PRAGMA {pragma}")
    try:
        yield
    finally:
        driver.cursor().execute("PRAGMA foreign_keys=ON")
