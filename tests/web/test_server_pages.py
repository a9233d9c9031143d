"""The pages of a server: the site's own, with headers, for this machine alone, and nothing outside of the results."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
import sample_results as sample
from serving import Served
from site_pages import Links
from sqlalchemy import event

from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.schema.names import RESULTS
from trainmark.schema.results import Results
from trainmark.site import StoreSource, open_source
from trainmark.site.entries import anchor_of
from trainmark.store import Store, database_url, rebuilt_suite
from trainmark.web import app, listing

Serve = Callable[..., Served]
CAMPAIGNS, PART = 65, 40
FIRST_DAY = datetime(2025, 1, 1, 12, tzinfo=UTC)
PAGES = ("index", "compare", "history", "references", "live")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory of result directories, one of which has runs with logs, and one hostile names."""
    hostile = sample.hostile().model_copy(update={"suite": "hostile"})
    for name, results in (("first", sample.ngc_v100()), ("hostile", hostile)):
        (tmp_path / "in" / name).mkdir(parents=True)
        write_atomically(tmp_path / "in" / name / RESULTS, results.to_json())
    (tmp_path / "in" / "first" / "runs").mkdir()
    for case in sample.ngc_v100().cases:
        for run in case.runs:
            log = tmp_path / "in" / "first" / run.directory / "train.log"
            log.parent.mkdir(parents=True)
            log.write_text("<script>alert(1)</script>\nstep 12/40\n", encoding="utf-8")
    return tmp_path / "in"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a database with two campaigns."""
    store = Store(database_url(str(tmp_path / "runs.db")))
    for results in (sample.ngc_v100(), sample.two_units().model_copy(update={"suite": "other"})):
        store.put(results, rebuilt_suite(results), f"/nonexistent/{results.suite}")
    store.close()
    return tmp_path / "runs.db"


def addresses(base: str = "") -> list[str]:
    return [f"{base}/", *(f"{base}/{name}.html" for name in PAGES)]


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_every_page_and_every_link_of_it_is_answered(
    kind: str, request: pytest.FixtureRequest, serve: Serve
) -> None:
    server = serve(request.getfixturevalue(kind))
    statuses: dict[str, int] = {}
    waiting = [*addresses(), *addresses("/zh")]
    while waiting:
        path = waiting.pop()
        if path in statuses or len(statuses) > 150:
            continue
        answer = server.ask(path)
        statuses[path] = answer.status
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        page = Links(answer.text)
        assert page.unmatched == page.open == [], path
        for href in (*page.links, *page.loaded):
            target = href.partition("#")[0].partition("?")[0]
            if target:
                waiting.append(os.path.normpath(f"{path.rpartition('/')[0]}/{target}"))
    assert {path: status for path, status in statuses.items() if status != 200} == {}
    assert any(path.startswith("/evidence/") for path in statuses)


def test_every_answer_has_the_policy(folder: Path, serve: Serve) -> None:
    server = serve(folder)
    for path in (*addresses(), "/assets/site.js", "/nothing", "/results/nothing.html"):
        headers = server.ask(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';"), path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_pages_have_no_script_and_no_style_of_their_own(folder: Path, serve: Serve) -> None:
    server = serve(folder)
    for path in (*addresses(), "/results/hostile.html", "/evidence/hostile.html", "/zh/results/hostile.html"):
        page = Links(server.ask(path).text)
        assert [list(attributes) for tag, attributes in page.tags if tag == "script"] == [["defer", "src"]]
        assert not any(
            tag == "style" or "style" in attributes or any(name.startswith("on") for name in attributes)
            for tag, attributes in page.tags
        ), path


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", ""]
)
def test_a_request_for_another_name_is_refused(host: str, folder: Path, serve: Serve) -> None:
    answer = serve(folder).ask("/", headers={"Host": host})
    assert answer.status in (400, 421)
    assert b"<html" not in answer.body


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "[::1]:8000", "127.0.0.1"])
def test_a_request_for_this_machine_is_answered(host: str, folder: Path, serve: Serve) -> None:
    assert serve(folder).ask("/", headers={"Host": host}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed_by_default(method: str, database: Path, serve: Serve) -> None:
    before = database.read_bytes()
    server = serve(database)
    for path in ("/", "/ingest", "/results/c1.html"):
        assert server.ask(path, method, b"{}").status in (404, 405)
    assert database.read_bytes() == before


TRAVERSALS = (
    *(f"/{room}/{quote('../' * 6, safe='')}etc/passwd" for room in ("assets", "results", "evidence", "logs")),
    *("/assets/../../etc/passwd", "/results/../../../etc/passwd.html", "/logs/first/../../etc/passwd/1"),
    *("/assets/..%2f..%2fpyproject.toml", "/results/..%00.html", "/results/%2e%2e.html", "//etc/passwd"),
    *("/results/c1%27%20or%201=1.html", "/results/c99999999999999999999.html", "/results/c-1.html"),
    *("/environments/first/..%2f..%2fx.html", "/logs/first/x/-1", "/logs/first/x/99999999999999999999"),
)


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_paths_that_lead_elsewhere_are_refused(
    kind: str, request: pytest.FixtureRequest, serve: Serve
) -> None:
    server = serve(request.getfixturevalue(kind))
    for path in TRAVERSALS:
        answer = server.ask(path)
        assert 400 <= answer.status < 500, path
        assert b"root:" not in answer.body
        assert b"Traceback" not in answer.body


def test_a_log_is_text_and_only_that_of_a_run(folder: Path, serve: Serve) -> None:
    server = serve(folder)
    case = sample.ngc_v100().cases[0]
    answer = server.ask(f"/logs/first/{anchor_of(case.id)}/1")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.body.startswith(b"<script>")
    assert server.ask(f"/logs/first/{anchor_of(case.id)}/77").status == 404
    assert f'href="../logs/first/{anchor_of(case.id)}/1"' in server.ask("/evidence/first.html").text


@pytest.mark.parametrize("place", ["..", "../../secret", "/etc", "link"])
def test_a_run_that_names_a_folder_elsewhere_has_no_log(place: str, tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "train.log").write_text("precious")
    (tmp_path / "in").mkdir()
    (tmp_path / "train.log").write_text("precious")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    (case,) = sample.one_case(3).cases
    runs = tuple(run.model_copy(update={"directory": place}) for run in case.runs)
    changed = sample.one_case(3).model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)})
    write_atomically(tmp_path / "in" / RESULTS, changed.to_json())
    server = serve(tmp_path / "in")

    answer = server.ask(f"/logs/in/{anchor_of(case.id)}/1")

    assert answer.status == 404
    assert b"precious" not in answer.body
    assert "precious" not in server.ask("/evidence/in.html").text


def test_a_database_is_filtered_by_the_address(database: Path, serve: Serve) -> None:
    server = serve(database)
    every = server.ask("/").text.count("<tr data-v")
    chosen = server.ask("/?precision=fp32").text
    assert 0 < chosen.count("<tr data-v") < every
    assert "<option selected>fp32</option>" in chosen
    assert server.ask("/?precision=%22%3E%3Cscript%3E").text.count("<script") == 1
    assert server.ask("/?first=abc").text.count("<tr data-v") == every
    assert "<tr data-v" not in server.ask("/?first=999999999").text
    assert server.ask("/?devices=7+(x)&model=%00").status == 200


def test_a_page_follows_the_results(database: Path, serve: Serve) -> None:
    server = serve(database)
    before = server.ask("/").text.count("<tr data-v")
    store = Store(database_url(str(database)))
    results = sample.one_case(3).model_copy(update={"suite": "later"})
    store.put(results, rebuilt_suite(results), "/nonexistent/later")
    store.close()
    assert server.ask("/").text.count("<tr data-v") == before + 1


def test_a_missing_library_is_one_line_with_its_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from trainmark.cli.main import main\n"
        f"sys.exit(main(['serve', {str(tmp_path)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'trainmark[serve]'" in done.stderr


def test_ingest_into_a_directory_is_refused(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    assert main(["serve", str(folder), "--ingest-token-file", str(token)]) == 2
    assert "needs a database" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        ("short", 0o600, "at least 16"),
        ("0123456789abcdef0123", 0o644, "other users can read"),
        ("0123456789 abcdef0123", 0o600, "one word"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_token_that_protects_nothing_is_refused(
    content: str | None, mode: int, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    assert main(["serve", str(tmp_path), "--ingest-token-file", str(token)]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def days_of(count: int) -> Iterator[Results]:
    """Yield the results of one case on so many days."""
    (case,) = sample.one_case(3).cases
    manifests = sample.one_case(3).manifests
    for day in range(count):
        runs = tuple(
            run.model_copy(update={"started_at": FIRST_DAY + timedelta(days=day, minutes=run.repeat)})
            for run in case.runs
        )
        moved = case.model_copy(update={"runs": runs})
        yield sample.one_case(3).model_copy(
            update={"suite": "nightly", "cases": (moved,), "manifests": manifests, "generated_at": FIRST_DAY}
        )


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with a case on many days."""
    path = tmp_path_factory.mktemp("nightly") / "runs.db"
    store = Store(database_url(str(path)))
    results = list(days_of(CAMPAIGNS))
    suite = rebuilt_suite(results[0])
    for number, one in enumerate(results):
        store.put(one, suite, f"/nonexistent/{number}")
    store.close()
    return path


def points_of(page: str) -> list[str]:
    """Return the days of a page's points, as their tips name them."""
    return re.findall(r"<title>c\d+, (\d{4}-\d\d-\d\d) ", page)


def test_the_whole_history_of_a_case_is_reached(
    nightly: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (app, listing):
        monkeypatch.setattr(module, "MOST_POINTS", PART)
    server = serve(nightly)
    (case,) = sample.one_case(3).cases
    address = f"/history.html?case={quote(case.id)}"

    page = server.ask(address)
    days = points_of(page.text)
    assert len(days) == PART
    older = [href for href in Links(page.text).links if "first=" in href]
    assert len(older) == 1
    days = [*points_of(server.ask(f"/{older[0]}").text), *days]

    wanted = [f"{FIRST_DAY + timedelta(days=day):%Y-%m-%d}" for day in range(CAMPAIGNS)]
    assert days == wanted


def test_the_history_offers_every_case_with_several_results(nightly: Path, serve: Serve) -> None:
    page = serve(nightly).ask("/history.html").text
    (case,) = sample.one_case(3).cases
    assert f'<option value="{case.id}">{case.id} ({CAMPAIGNS})</option>' in page
    assert 0 < len(points_of(page)) < CAMPAIGNS


@pytest.mark.parametrize(
    "query", ["case=nothing", "case=%00", "case=' or 1=1 --", "first=7", "case=&first=99999999999"]
)
def test_a_history_of_nothing_is_a_page(query: str, nightly: Path, folder: Path, serve: Serve) -> None:
    for source in (nightly, folder):
        answer = serve(source).ask(f"/history.html?{quote(query, safe='=&%')}")
        assert answer.status == 200
        assert "<h1>History</h1>" in answer.text


def test_published_figures_are_those_of_every_model(nightly: Path, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(nightly, path)
    store = Store(database_url(str(path)))
    with store.reading() as connection:
        connection.exec_driver_sql("UPDATE runs SET model = 'bert_base' WHERE campaign_id = 1")
    store.close()
    assert "bert_base" in serve(path).ask("/references.html").text


def test_a_part_of_many_campaigns_takes_no_more_queries_than_one_of_few(nightly: Path) -> None:
    source = open_source(str(nightly))
    assert isinstance(source, StoreSource)
    found = listing.StoreListing(source)
    queries: list[str] = []
    event.listen(source.store._engine, "before_cursor_execute", lambda *given: queries.append(given[2]))

    counts = []
    for first, size in ((0, CAMPAIGNS), (CAMPAIGNS - 2, 2)):
        queries.clear()
        assert len(found.part({}, first).entries) == size
        counts.append(len(queries))

    assert counts[0] == counts[1] < 12
    source.close()
