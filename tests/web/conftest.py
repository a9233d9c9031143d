"""The samples of reports, the browser, and the readers of pages, which live next to other tests; a server to ask."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

for folder in ("report", "site"):
    sys.path.append(str(Path(__file__).parents[1] / folder))

from serving import Served, served_from  # noqa: E402


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Served]]:
    """Return a function that starts a server of a source; all are stopped at the end."""
    started: list[Served] = []

    def start(source: Path, token: str | None = None) -> Served:
        started.append(served_from(str(source), token))
        return started[-1]

    yield start
    for one in started:
        one.stop()
