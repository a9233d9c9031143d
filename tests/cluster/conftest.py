"""One cluster for all tests of this folder, which are one group of pytest-xdist."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import Cluster, cluster, shared_environments
from fakes import PROGRAMS

PROGRAMS_THERE = Path("/opt/programs")


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for git repositories, which the hosts have under the same path: from there they fetch."""
    return tmp_path_factory.mktemp("repositories")


@pytest.fixture(scope="session")
def hosts(repositories: Path) -> Iterator[Cluster]:
    """Four hosts, all well, with the tests' programs under another path; a test heals what it breaks."""
    shared = {PROGRAMS: PROGRAMS_THERE, repositories: repositories, **shared_environments()}
    words = [word for here, there in shared.items() for word in ("--share", f"{here}:{there}")]
    with cluster(*words) as made:
        yield made


@pytest.fixture
def tidy(hosts: Cluster) -> Iterator[None]:
    """Refuse a process or a file that a test has left on a host."""
    before = {name: (hosts.daemons(name), hosts.files(name)) for name in hosts.names}
    yield
    hosts.wait_until_quiet()
    for name, (daemons, files) in before.items():
        assert hosts.daemons(name) == daemons, name
        assert sorted(hosts.files(name) - files) == [], name
