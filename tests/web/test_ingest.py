"""Ingest: only with the token, whole or not at all, and whatever is sent."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served

from trainmark.schema.results import Results
from trainmark.store import Store, database_url

Serve = Callable[..., Served]
TOKEN = "0123456789abcdef0123456789abcdef"
SENT = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return an empty database."""
    Store(database_url(str(tmp_path / "runs.db"))).close()
    return tmp_path / "runs.db"


@pytest.fixture
def server(database: Path, serve: Serve) -> Served:
    """Return a server that accepts results."""
    return serve(database, TOKEN)


def document(results: Results) -> bytes:
    return results.model_dump_json().encode()


def stored(database: Path) -> list[tuple[str, int]]:
    """Return the suite and number of runs of each stored campaign."""
    store = Store(database_url(str(database)))
    found = [(one.suite, one.runs) for one in store.summaries()]
    store.close()
    return found


def test_results_are_stored_once_and_shown(server: Served, database: Path) -> None:
    content = document(sample.ngc_v100())
    first = server.ask("/ingest", "POST", content, SENT)
    assert first.status == 200
    runs = sum(len(case.runs) for case in sample.ngc_v100().cases)
    assert json.loads(first.body) == {"campaign": 1, "new": runs, "changed": 0, "known": 0}
    again = json.loads(server.ask("/ingest", "POST", content, SENT).body)
    assert again == {"campaign": 1, "new": 0, "changed": 0, "known": runs}
    assert stored(database) == [(sample.ngc_v100().suite, runs)]
    assert "results/c1.html#" in server.ask("/").text


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer  {TOKEN}",
        "Bearer \u00e9" * 40,
    ],
)
def test_a_forged_token_is_refused(header: str | None, server: Served, database: Path) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = server.ask("/ingest", "POST", document(sample.one_case(3)), headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN.encode() not in answer.body
    assert stored(database) == []


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_document_that_is_cut_off_leaves_nothing(part: float, server: Served, database: Path) -> None:
    content = document(sample.ngc_v100())
    head = (
        "POST /ingest HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    answer = server.raw(head.encode() + content[: int(len(content) * part)])
    assert not answer.startswith(b"HTTP/1.1 200")
    assert stored(database) == []
    assert server.ask("/").status == 200


def test_a_chunk_that_is_cut_off_leaves_nothing(server: Served, database: Path) -> None:
    content = document(sample.ngc_v100())
    head = (
        "POST /ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        f"Authorization: Bearer {TOKEN}\r\n\r\n{len(content):x}\r\n"
    )
    assert not server.raw(head.encode() + content).startswith(b"HTTP/1.1 200")
    assert stored(database) == []


def test_a_document_that_is_too_large_is_refused(
    server: Served, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.web.app.MOST_BYTES", 10_000)
    answer = server.ask("/ingest", "POST", document(sample.ngc_v100()), SENT)
    assert answer.status == 413
    assert stored(database) == []


def test_a_failure_in_the_middle_of_storing_leaves_nothing(
    server: Served, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0
    real = Store.put.__globals__["_row"]

    def failing(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done == 7:
            raise sample_error
        return real(*arguments)

    sample_error = RuntimeError("the disk went away")
    monkeypatch.setitem(Store.put.__globals__, "_row", failing)
    answer = server.ask("/ingest", "POST", document(sample.ngc_v100()), SENT)
    assert answer.status == 500
    assert b"disk" not in answer.body
    assert done == 7
    assert stored(database) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"{" + b'"a":1,' * 100,
        b'{"schema_name": NaN}',
        b'{"schema_name":"trainmark.results/2"}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_document_is_one_line(content: bytes, server: Served, database: Path) -> None:
    answer = server.ask("/ingest", "POST", content, SENT)
    assert answer.status == 422
    assert answer.body.count(b"\n") == 1
    assert b"Traceback" not in answer.body
    assert stored(database) == []


WORDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
    st.sampled_from(
        ["<script>alert(1)</script>", "../../etc/passwd", "\u202e", "{{7*7}}", "'; drop table runs--"]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            found += places(inner, (*path, number))
    return found


ORIGINAL = json.loads(document(sample.one_case(3)))
PLACES = places(ORIGINAL)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(PLACES), word=WORDS, removed=st.booleans())
def test_a_document_with_any_word_changed_is_stored_whole_or_refused(
    place: tuple[Any, ...], word: Any, removed: bool, server: Served, database: Path
) -> None:
    changed = json.loads(json.dumps(ORIGINAL))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if removed:
        del inner[place[-1]]
    else:
        inner[place[-1]] = word
    before = sum(runs for _, runs in stored(database))

    answer = server.ask("/ingest", "POST", json.dumps(changed).encode(), SENT)

    after = sum(runs for _, runs in stored(database))
    assert answer.status in (200, 422), (place, word, answer.text)
    if answer.status == 200:
        assert after - before == json.loads(answer.body)["new"]
    else:
        assert after == before
        assert answer.body.count(b"\n") == 1
    for path in ("/", "/history.html"):
        page = server.ask(path)
        assert page.status == 200, (place, word)
        assert page.text.count("<script") == 1


def test_a_suite_whose_name_no_suite_may_have_is_refused(server: Served, database: Path) -> None:
    answer = server.ask("/ingest", "POST", document(sample.hostile()), SENT)
    assert answer.status == 422
    assert b"is not the name of a suite" in answer.body
    assert stored(database) == []


def test_scripts_in_every_name_are_text(server: Served) -> None:
    named = sample.hostile().model_copy(update={"suite": "hostile"})
    assert server.ask("/ingest", "POST", document(named), SENT).status == 200
    for path in (
        "/",
        "/results/c1.html",
        "/evidence/c1.html",
        "/history.html",
        "/compare.html",
        "/live.html",
    ):
        answer = server.ask(path)
        assert answer.status == 200
        assert answer.text.count("<script") == 1, path
