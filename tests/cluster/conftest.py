"""One cluster for all tests of this folder, which are one group of pytest-xdist."""

from collections.abc import Iterator

import pytest

from clusters import Cluster, cluster


@pytest.fixture(scope="session")
def hosts() -> Iterator[Cluster]:
    """Four hosts, all well; a test heals what it breaks."""
    with cluster() as made:
        yield made
