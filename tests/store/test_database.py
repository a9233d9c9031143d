"""The database of runs: one row a run whatever happens, and migrations that leave exactly the tables."""

import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, create_engine

from fakes import Bench
from trainmark.errors import InputError, TrainmarkError
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.results import RunResult
from trainmark.schema.suite import Suite
from trainmark.store import Store, document_of, migrations, sqlite_url
from trainmark.store.database import HEAD
from trainmark.store.tables import metadata

STORED = Path(__file__).parents[2] / "docs" / "results" / "frameworks" / "equivalence"


@pytest.fixture
def store(url: URL) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture
def done(bench: Bench) -> tuple[Suite, Case, RunResult]:
    suite = bench.write()
    return suite, suite.cases[0], bench.run().cases[0].runs[0]


@pytest.mark.parametrize("first", [None, "0001"])
def test_a_new_and_a_migrated_database_have_exactly_the_tables(url: URL, first: str | None) -> None:
    if first is not None:
        migrated(url, first)
    Store(url).close()
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    engine.dispose()


def test_a_new_database_has_the_version_of_the_newest_migration() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_current_head() == HEAD


def test_a_run_is_in_the_database_once_however_often_it_is_added(
    store: Store, done: tuple[Suite, Case, RunResult]
) -> None:
    suite, case, run = done
    campaign = store.campaign(suite, "/results/x", "0.1.0")
    for _ in range(3):
        store.add(campaign, case, run, {"nodes": []})
    assert store.known_runs(campaign) == {(case.id, 1): document_of(run)}
    assert run.measurement is not None
    assert store.throughputs(case.id) == {campaign.id: [run.measurement.throughput]}


def test_a_directory_is_one_campaign(store: Store, done: tuple[Suite, Case, RunResult]) -> None:
    suite, case, run = done
    one, again, other = (store.campaign(suite, place, "0.1.0") for place in ("/a", "/a", "/b"))
    assert one == again != other
    store.add(other, case, run, None if run.manifest is None else {"nodes": []})
    assert store.known_runs(one) == {}


def test_a_run_that_never_started_is_not_listed(store: Store, done: tuple[Suite, Case, RunResult]) -> None:
    suite, case, run = done
    campaign = store.campaign(suite, "/a", "0.1.0")
    store.add(campaign, case, run.model_copy(update={"started_at": None, "manifest": None}), None)
    assert store.known_runs(campaign) == {}


def test_a_store_opens_again(url: URL, store: Store, done: tuple[Suite, Case, RunResult]) -> None:
    suite, case, run = done
    store.add(store.campaign(suite, "/a", "0.1.0"), case, run, {"nodes": []})
    again = Store(url)
    assert set(again.known_runs(again.campaign(suite, "/a", "0.1.0"))) == {(case.id, 1)}
    again.close()


def test_a_manifest_shared_by_many_runs_is_stored_once(
    store: Store, done: tuple[Suite, Case, RunResult], url: URL
) -> None:
    suite, case, run = done
    campaign = store.campaign(suite, "/a", "0.1.0")
    for repeat in (1, 2, 3):
        store.add(campaign, case, run.model_copy(update={"repeat": repeat}), {"nodes": []})
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM manifests").scalar() == 1
    engine.dispose()


@pytest.fixture
def certificate() -> Certificate:
    """Return a certificate of six frameworks, as it came out."""
    (path,) = STORED.glob("mobilenet_v1-cpu/certificate.json")
    return Certificate.model_validate_json(path.read_bytes())


def test_certificates_are_read_back_unchanged(
    store: Store, done: tuple[Suite, Case, RunResult], certificate: Certificate
) -> None:
    suite, _, _ = done
    one, other = (store.campaign(suite, place, "0.1.0") for place in ("/a", "/b"))
    second = certificate.model_copy(update={"model": "resnet50_v1.5"})
    store.certify(one, (certificate, second))
    assert store.runs_of(one).certificates == (certificate, second)
    assert store.runs_of(other).certificates == ()


def test_certificates_replace_earlier_ones(
    store: Store, done: tuple[Suite, Case, RunResult], certificate: Certificate
) -> None:
    suite, _, _ = done
    campaign, other = (store.campaign(suite, place, "0.1.0") for place in ("/a", "/b"))
    later = certificate.model_copy(update={"absent": {"jax": "timeout"}})
    for shown in ((certificate, certificate), (later,)):
        store.certify(campaign, shown)
        store.certify(other, (certificate,))
    assert store.runs_of(campaign).certificates == (later,)
    assert store.runs_of(other).certificates == (certificate,)
    store.certify(campaign, ())
    assert store.runs_of(campaign).certificates == ()


def test_a_certificate_of_another_version_is_left_out(
    store: Store, done: tuple[Suite, Case, RunResult], certificate: Certificate, url: URL
) -> None:
    suite, _, _ = done
    campaign = store.campaign(suite, "/a", "0.1.0")
    store.certify(campaign, (certificate, certificate))
    engine = create_engine(url)
    with engine.begin() as connection:
        first = connection.exec_driver_sql("SELECT min(id) FROM certificates").scalar()
        connection.exec_driver_sql(f"UPDATE certificates SET document = '{{}}' WHERE id = {first}")
    engine.dispose()
    assert store.runs_of(campaign).certificates == (certificate,)


def test_a_database_without_certificates_is_migrated_with_its_runs(
    done: tuple[Suite, Case, RunResult], certificate: Certificate, url: URL
) -> None:
    suite, case, run = done
    migrated(url, "0001")
    # What the earlier version wrote: the tables are those of its migration.
    engine = create_engine(url)
    with engine.begin() as connection:
        insert = "INSERT INTO campaigns (suite, directory, suite_yaml, trainmark_version) VALUES"
        connection.exec_driver_sql(f"{insert} ('old', '/a', 'name: old', '0.0.9')")
    engine.dispose()
    opened = Store(url)
    campaign = opened.campaign(suite, "/a", "0.1.0")
    assert [one.suite for one in opened.campaigns()] == ["old"]
    opened.add(campaign, case, run, {"nodes": []})
    opened.certify(campaign, (certificate,))
    found = opened.runs_of(campaign)
    assert (len(found.runs[case.id]), found.certificates) == (1, (certificate,))
    opened.close()


def migrated(url: URL, revision: str) -> None:
    """Bring an empty database to a revision of the migrations."""
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(migrations.__file__).parent))
    engine = create_engine(url)
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
    engine.dispose()


def test_a_file_that_is_not_a_database_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(
        TrainmarkError, match=f"^{path}: the database cannot be used: file is not a database$"
    ):
        Store(sqlite_url(path))


def test_a_database_of_a_later_trainmark_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    Store(sqlite_url(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(TrainmarkError, match=f"^{path}: made by another version of trainmark"):
        Store(sqlite_url(path))


def test_a_failed_migration_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (mine TEXT)")
    connection.close()
    with pytest.raises(TrainmarkError, match="table runs already exists"):
        Store(sqlite_url(path))
    with sqlite3.connect(path) as connection:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    connection.close()
    assert tables == {"runs"}


def test_an_invalid_address_or_missing_driver_is_an_input_error() -> None:
    for address in ("nonsense://", "postgresql://me:secret@host:port/x", "://"):
        with pytest.raises(InputError, match="not a URL such as postgresql://") as caught:
            Store(address)
        assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="the driver of the database is not installed: MySQLdb"):
        Store("mysql://localhost/x")


def test_a_password_is_never_printed() -> None:
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    with pytest.raises(TrainmarkError) as caught:
        Store("postgresql+psycopg://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)


def test_a_run_without_a_number_has_a_null_throughput_in_the_database(bench: Bench) -> None:
    bench.write({"options": {"behaviour": "crashes"}})
    bench.run()
    with sqlite3.connect(bench.out / "results.sqlite") as connection:
        row = connection.execute("SELECT outcome, throughput, unit FROM runs").fetchone()
    connection.close()
    assert row == ("failed", None, None)
