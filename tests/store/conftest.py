"""Databases to write into: a SQLite file whose path has everything in it, and a private PostgreSQL server."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine

from trainmark.store import sqlite_url

POSTGRESQL = Path("/usr/lib/postgresql/15/bin")
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Path]:
    """Run a private server on a socket, as user postgres when we are root (it refuses to be root)."""
    if not POSTGRESQL.is_dir() or find_spec("psycopg") is None:
        pytest.skip("PostgreSQL 15 and psycopg are not both installed")
    place = Path(subprocess.check_output(["mktemp", "-d", "/tmp/trainmark-pg-XXXXXX"], text=True).strip())
    become = ["/usr/sbin/runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if become:
        shutil.chown(place, "postgres")
    control = [*become, str(POSTGRESQL / "pg_ctl"), "-D", str(place / "data"), "-w", "-l", str(place / "log")]
    subprocess.run(
        [*become, str(POSTGRESQL / "initdb"), "-D", str(place / "data"), "-A", "trust", "-U", "tm"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [*control, "-o", f"-k {place} -c listen_addresses=''", "start"], check=True, stdout=subprocess.DEVNULL
    )
    try:
        yield place
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(place)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """Return the address of an empty database of each kind that this machine has."""
    if request.param == "sqlite":
        folder = tmp_path / "a ?b#c%d"
        folder.mkdir()
        return sqlite_url(folder / "runs.sqlite")
    place: Path = request.getfixturevalue("server")
    name = f"test_{next(_NUMBERS)}"
    anywhere = URL.create(
        "postgresql+psycopg", username="tm", database="postgres", query={"host": str(place)}
    )
    engine = create_engine(anywhere, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return anywhere.set(database=name)
