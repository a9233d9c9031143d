"""``trainmark store add|list``: result directories into SQLite and PostgreSQL, each of them once."""

import json
import shlex
import sqlite3
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, create_engine

from fakes import Bench
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.schema.outcome import Identity, Part, PartName
from trainmark.schema.results import Results
from trainmark.store import Store, existing_store, read_results, sqlite_url
from trainmark.store.database import identity

OLD = Path(__file__).with_name("old")
TWICE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}
CAN = pytest.CaptureFixture[str]


def with_runs(results: Results, repeats: int) -> Results:
    """Return the results as they were when each case had so many runs."""
    cases = tuple(
        case.model_copy(
            update={"runs": tuple(run for run in case.runs if run.repeat <= repeats), "estimate": None}
        )
        for case in results.cases
    )
    return results.model_copy(update={"cases": cases})


@pytest.fixture
def old() -> Results:
    return read_results(OLD / "results-0.1.json")


@pytest.fixture
def address(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@pytest.fixture
def out(tmp_path: Path, old: Results) -> Path:
    """Return a directory with two cases of three runs each, of which only ``results.json`` was kept."""
    folder = tmp_path / "out"
    folder.mkdir()
    write_atomically(folder / "results.json", old.to_json())
    return folder


def added(folder: Path, address: str, capsys: CAN) -> dict[str, Any]:
    assert main(["store", "add", str(folder), "--to", address, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    return {name: one[name] for name in ("campaign", "new", "changed", "known")}


def listed(address: str, capsys: CAN) -> list[dict[str, Any]]:
    assert main(["store", "list", "--from", address, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


def everything(url: URL) -> dict[str, list[tuple[Any, ...]]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        names = ("campaigns", "runs", "manifests", "certificates")
        found = {
            name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")]
            for name in names
        }
    engine.dispose()
    return found


def test_adding_a_directory_twice_changes_nothing(out: Path, url: URL, address: str, capsys: CAN) -> None:
    assert added(out, address, capsys) == {"campaign": 1, "new": 6, "changed": 0, "known": 0}
    before = everything(url)
    assert added(out, address, capsys) == {"campaign": 1, "new": 0, "changed": 0, "known": 6}
    assert everything(url) == before


def test_a_directory_that_grew_adds_what_is_new(out: Path, old: Results, address: str, capsys: CAN) -> None:
    write_atomically(out / "results.json", with_runs(old, 1).to_json())
    assert added(out, address, capsys)["new"] == 2
    write_atomically(out / "results.json", old.to_json())
    assert added(out, address, capsys) == {"campaign": 1, "new": 4, "changed": 0, "known": 2}


def test_a_directory_whose_suite_changed_has_its_new_and_its_removed_cases(
    out: Path, old: Results, address: str, capsys: CAN
) -> None:
    first = min(old.cases, key=lambda case: min(run.started_at for run in case.runs if run.started_at))
    for cases, reported in (((first,), 1), (old.cases, 2), ((first,), 2)):
        write_atomically(out / "results.json", old.model_copy(update={"cases": cases}).to_json())
        assert added(out, address, capsys)["campaign"] == 1
        assert main(["report", address, "--json"]) == 0
        document = Results.model_validate_json(capsys.readouterr().out)
        assert [len(case.runs) for case in document.cases] == [3] * reported


def test_a_renumbered_run_does_not_count_twice(out: Path, old: Results, address: str, capsys: CAN) -> None:
    added(out, address, capsys)
    case = old.cases[1]
    folder = str(Path(case.runs[2].directory).with_name("4"))
    runs = (*case.runs[:2], case.runs[2].model_copy(update={"repeat": 4, "directory": folder}))
    write_atomically(
        out / "results.json",
        old.model_copy(update={"cases": (old.cases[0], case.model_copy(update={"runs": runs}))}).to_json(),
    )
    assert main(["store", "add", str(out), "--to", address]) == 2
    errors = capsys.readouterr().err
    assert f"runs 3 and 4 of {case.id} are the same run, which counts only once: both started at " in errors


def test_a_directory_that_was_moved_is_the_same_campaign(
    out: Path, tmp_path: Path, address: str, capsys: CAN
) -> None:
    added(out, address, capsys)
    moved = out.rename(tmp_path / "elsewhere")
    assert added(moved, address, capsys) == {"campaign": 1, "new": 0, "changed": 0, "known": 6}
    assert [one["directory"] for one in listed(address, capsys)] == [str(moved)]


def test_another_campaign_in_the_same_directory_is_a_new_campaign(
    out: Path, old: Results, address: str, capsys: CAN
) -> None:
    added(out, address, capsys)
    cases = tuple(
        case.model_copy(
            update={
                "runs": tuple(
                    run.model_copy(update={"duration_s": (run.duration_s or 0) + 1}) for run in case.runs
                )
            }
        )
        for case in old.cases
    )
    write_atomically(out / "results.json", old.model_copy(update={"cases": cases}).to_json())
    assert added(out, address, capsys)["campaign"] == 2
    assert [one["runs"] for one in listed(address, capsys)] == [6, 6]


def test_a_run_that_was_measured_again_replaces_the_old_one(
    out: Path, old: Results, address: str, capsys: CAN
) -> None:
    added(out, address, capsys)
    case = old.cases[1]
    runs = (*case.runs[:2], case.runs[2].model_copy(update={"reason": "another"}))
    changed = old.model_copy(update={"cases": (old.cases[0], case.model_copy(update={"runs": runs}))})
    write_atomically(out / "results.json", changed.to_json())
    assert added(out, address, capsys) == {"campaign": 1, "new": 0, "changed": 1, "known": 5}


def test_runs_of_another_program_are_not_added_to_a_case(
    out: Path, old: Results, address: str, capsys: CAN
) -> None:
    """The directory lost its third run, and its others were made anew by another program."""

    def ran(digest: str, keep: int) -> Results:
        part = Part(name=PartName.SOURCE, word="folder program", digest=digest)
        case = old.cases[1]
        runs = tuple(run.model_copy(update={"identity": Identity.of((part,))}) for run in case.runs[:keep])
        changed = case.model_copy(update={"runs": runs, "estimate": None})
        return old.model_copy(update={"cases": (old.cases[0], changed)})

    write_atomically(out / "results.json", ran("sha256:1a2b3c4d5e6f", keep=3).to_json())
    added(out, address, capsys)
    write_atomically(out / "results.json", ran("sha256:5e6f7a8b9c0d", keep=2).to_json())
    assert main(["store", "add", str(out), "--to", address]) == 2
    errors = capsys.readouterr().err
    assert "source changed: folder program (was 1a2b3c4d…, now 5e6f7a8b…)" in errors
    write_atomically(out / "results.json", ran("sha256:5e6f7a8b9c0d", keep=3).to_json())
    assert added(out, address, capsys) == {"campaign": 1, "new": 0, "changed": 3, "known": 3}


def test_a_database_with_several_campaigns_reports_the_chosen_one(
    out: Path, old: Results, tmp_path: Path, address: str, capsys: CAN
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_atomically(other / "results.json", old.model_copy(update={"suite": "other"}).to_json())
    assert main(["store", "add", str(out), str(other), "--to", address]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{out}: campaign 1 (h200-frameworks): 6 runs added, 0 updated, 0 unchanged",
        f"{other}: campaign 2 (other): 6 runs added, 0 updated, 0 unchanged",
    ]
    for chosen in ("2", "other", str(other)):
        assert main(["report", address, "--json", "--campaign", chosen]) == 0
        reported = Results.model_validate_json(capsys.readouterr().out)
        assert reported.suite == "other"
        assert [case.runs for case in reported.cases] == [case.runs for case in old.cases]
        assert reported.certificates == old.certificates
        assert reported.findings is not None


def test_concurrent_adds_store_each_run_once(old: Results, url: URL) -> None:
    stores = [Store(url) for _ in range(4)]
    start = threading.Barrier(len(stores))
    found: list[int] = []

    def add(store: Store) -> None:
        start.wait()
        found.append(store.put(old, "name: x", "/out").new)

    threads = [threading.Thread(target=add, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert sorted(found) == [0, 0, 0, 6]


def test_a_directory_with_its_runs_is_added_as_its_own_database_has_it(
    bench: Bench, address: str, capsys: CAN
) -> None:
    bench.write({}, {"precision": "bf16"}, protocol=TWICE)
    bench.run()
    assert added(bench.out, address, capsys)["new"] == 4
    assert added(bench.out, address, capsys)["known"] == 4
    assert main(["report", str(bench.out / "results.sqlite"), "--json"]) == 0
    own = Results.model_validate_json(capsys.readouterr().out)
    assert main(["report", address, "--json"]) == 0
    shared = Results.model_validate_json(capsys.readouterr().out)
    assert (shared.cases, shared.manifests, shared.findings) == (own.cases, own.manifests, own.findings)


def test_the_list_shows_the_cases_and_runs_of_each_campaign(out: Path, address: str, capsys: CAN) -> None:
    added(out, address, capsys)
    (one,) = listed(address, capsys)
    assert one == {
        "id": 1,
        "suite": "h200-frameworks",
        "directory": str(out),
        "cases": 2,
        "runs": 6,
        "ok": 6,
        "started_at": one["started_at"],
    }
    assert one["started_at"].startswith("2026-11-21T10:")
    assert main(["store", "list", "--from", address]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "suite", "cases", "runs", "ok", "started", "directory"]
    assert line.split()[:5] == ["1", "h200-frameworks", "2", "6", "6"]


@pytest.mark.parametrize("words", [["report", "{}", "--to", "md"], ["store", "list", "--from", "{}"]])
@pytest.mark.parametrize("form", ["sqlite:///{}", "{}"])
def test_reading_a_missing_database_does_not_create_it(
    words: list[str], form: str, tmp_path: Path, capsys: CAN
) -> None:
    path = tmp_path / "nosuch.db"
    assert main([word.format(form.format(path)) for word in words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert str(path) in printed.err
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"^{path}: contains no results of trainmark$"):
        existing_store(str(path))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_password_is_never_printed(out: Path, capsys: CAN) -> None:
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    for address in ("postgresql://me:secret@127.0.0.1:1/x", "postgresql://me:secret@127.0.0.1:port/x"):
        for words in (["add", str(out), "--to", address], ["list", "--from", address]):
            assert main(["store", *words]) in (1, 2)
            printed = capsys.readouterr()
            assert printed.err.count("\n") == 1
            assert "secret" not in printed.out + printed.err


@pytest.mark.parametrize("what", ["nothing", "folder"])
def test_a_directory_without_results_adds_nothing(what: str, out: Path, tmp_path: Path, capsys: CAN) -> None:
    other = tmp_path / "other"
    if what == "folder":
        other.mkdir()
    path = tmp_path / "runs.sqlite"
    assert main(["store", "add", str(out), str(other), "--to", str(path)]) == 2
    assert "other/results.json: no such file" in capsys.readouterr().err
    assert not path.exists()


def test_a_directory_without_a_run_has_nothing_to_add(
    out: Path, old: Results, tmp_path: Path, capsys: CAN
) -> None:
    write_atomically(out / "results.json", with_runs(old, 0).to_json())
    assert main(["store", "add", str(out), "--to", str(tmp_path / "runs.sqlite")]) == 2
    assert f"{out}: nothing to add: none of its runs was started" in capsys.readouterr().err


def test_a_directorys_own_database_is_not_filled_with_its_runs_again(bench: Bench, capsys: CAN) -> None:
    bench.write()
    bench.run()
    assert main(["store", "add", str(bench.out), "--to", str(bench.out / "results.sqlite")]) == 2
    assert "already contains its runs" in capsys.readouterr().err


def test_a_database_of_the_first_version_can_be_read_with_all_runs(tmp_path: Path, old: Results) -> None:
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((OLD / "results-0.1.sql").read_text())
    connection.close()
    for _ in range(2):
        store = existing_store(str(path))
        (campaign,) = store.campaigns()
        found = store.runs_of(campaign)
        assert (campaign.suite, campaign.directory) == ("h200-frameworks", ".")
        assert {name: tuple(runs) for name, runs in found.runs.items()} == {
            case.id: case.runs for case in old.cases
        }
        assert found.certificates == old.certificates
        assert dict(found.manifests) == dict(old.manifests)
        store.close()
    store = Store(sqlite_url(path))
    assert store.put(old, "name: x", str(tmp_path)).new == 6
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_a_campaigns_identity_is_stable_when_it_grows_and_unique(old: Results) -> None:
    assert identity(with_runs(old, 1)) == identity(old)
    assert identity(old.model_copy(update={"suite": "other"})) != identity(old)


def test_runs_that_were_stored_under_a_cases_earlier_id_are_found(
    out: Path, old: Results, tmp_path: Path, capsys: CAN
) -> None:
    found = old.cases[0]
    case = found.case.model_copy(update={"options": {"mode": "benchmark"}})
    runs = tuple(run.model_copy(update={"directory": f"runs/{case.id}/{run.repeat}"}) for run in found.runs)
    write_atomically(
        out / "results.json",
        old.model_copy(
            update={"cases": (found.model_copy(update={"id": case.id, "case": case, "runs": runs}),)}
        ).to_json(),
    )
    path = tmp_path / "runs.sqlite"
    added(out, str(path), capsys)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET case_id = ?", (case.earlier_id,))
    connection.close()
    assert main(["report", str(path), "--json"]) == 0
    reported = Results.model_validate_json(capsys.readouterr().out)
    assert [len(one.runs) for one in reported.cases] == [3]


def test_a_database_on_a_disk_that_cannot_be_written_is_read(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    assert main(["store", "add", str(out), "--to", str(shelf / "runs.db")]) == 0
    mount = "mount --bind shelf shelf && mount -o remount,ro,bind shelf"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], cwd=tmp_path, check=False).returncode:
        pytest.skip("this machine does not let us mount a folder read-only (unshare -rm mount)")
    read = f"{mount} && exec {shlex.quote(sys.executable)} -m trainmark store list --from shelf/runs.db"

    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", read], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[2:4] == ["2", "6"]
