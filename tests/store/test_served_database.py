"""A server of each kind of database: its pages are the same."""

import sys
from pathlib import Path

import pytest
from sqlalchemy import URL

for folder in ("report", "web"):
    sys.path.append(str(Path(__file__).parents[1] / folder))

import sample_results as sample  # noqa: E402
from serving import served_from  # noqa: E402

from trainmark.store import Store, rebuilt_suite  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def address(url: URL) -> str:
    """Return the address of a database with results."""
    store = Store(url)
    results = sample.ngc_v100()
    store.put(results, rebuilt_suite(results), "/nonexistent/one")
    store.close()
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=False)


def test_pages_and_ingest_of_a_database(address: str) -> None:
    server = served_from(address, TOKEN)
    try:
        for path in ("/", "/history.html", "/compare.html", "/live.html", "/results/c1.html", "/?model=%00"):
            assert server.ask(path).status == 200, path
        count = server.ask("/").text.count("<tr data-v")
        assert count == len(sample.ngc_v100().cases)
        sent = {"Authorization": f"Bearer {TOKEN}"}
        other = sample.two_units().model_copy(update={"suite": "other"})
        body = other.model_dump_json().encode()
        assert server.ask("/ingest", "POST", body, sent).status == 200
        assert server.ask("/").text.count("<tr data-v") == count + len(other.cases)
        words = sample.one_case(3).model_copy(update={"description": "nul \0 and \ud7ff"})
        answer = server.ask("/ingest", "POST", words.model_dump_json().encode(), sent)
        assert answer.status in (200, 422, 503)
        assert server.ask("/").status == 200
    finally:
        server.stop()
