"""Formats are loaded only when a log may have them, from an index that is valid for the content of their files."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.documents import parse_yaml, split_documents
from trainmark.logs.format import FormatWords, PatternWords, words_of
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import formats, log_formats, synthetic_log
from trainmark.programs.reading import IndexEntry, as_json, descriptions, known_formats, load_index

_ENTRY = IndexEntry(
    FormatWords("one", False, (PatternWords((b"a\xff", b""), (b"step",)),)), {"title": "One", "n": [1]}
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    room = tmp_path / "programs" / "log_formats"
    room.mkdir(parents=True)
    (room / "one.yaml").write_text("title: One\n")
    return room


def _computing(done: list[int]) -> list[IndexEntry]:
    done.append(1)
    return [_ENTRY]


@pytest.mark.parametrize("known", formats(), ids=lambda known: known.name)
def test_every_format_that_matches_is_a_candidate(known: object) -> None:
    text = synthetic_log(known.name, SampleRun([0.5] * 60, gpus=2, interval=5)).encode()  # type: ignore[attr-defined]
    matching = [
        each.name
        for each in formats()
        if any(pattern.search(text) for pattern in (*each.records, *each.figures.values(), each.mark))
    ]

    found = [each.name for each in known_formats().candidates(text)]

    assert set(matching) <= set(found)
    assert found == [each.name for each in formats() if each.name in found]
    assert len(found) < len(formats()) / 2


def test_harnesses_are_the_candidates_that_accompany_another_program() -> None:
    (harness,) = (each for each in formats() if each.accompanies)
    text = b" ".join(
        word for pattern in words_of(harness).patterns for word in pattern.all_of + pattern.any_of
    )

    assert [each.name for each in known_formats().harnesses(text)] == [harness.name]
    assert known_formats().harnesses(b"nothing of it") == []


def test_a_saved_index_is_not_computed_again(folder: Path) -> None:
    done: list[int] = []

    first = load_index([folder], lambda: _computing(done))
    second = load_index([folder], lambda: _computing(done))

    assert first == second == (_ENTRY,)
    assert done == [1]


def test_an_index_is_computed_again_when_a_file_changes(folder: Path) -> None:
    done: list[int] = []
    load_index([folder], lambda: _computing(done))

    (folder / "one.yaml").write_text("title: Two\n")
    load_index([folder], lambda: _computing(done))
    (folder / "words.py").write_text("")
    load_index([folder], lambda: _computing(done))

    assert len(done) == 3
    assert len(list((folder.parents[1] / "cache" / "trainmark").iterdir())) == 1


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"digest": 1}'])
def test_a_damaged_index_is_computed_again(folder: Path, damage: str) -> None:
    done: list[int] = []
    load_index([folder], lambda: _computing(done))
    (saved,) = (folder.parents[1] / "cache" / "trainmark").iterdir()
    saved.write_text(damage)

    assert load_index([folder], lambda: _computing(done)) == (_ENTRY,)
    assert len(done) == 2


def test_a_cache_that_cannot_be_written_is_not_needed(folder: Path) -> None:
    (folder.parents[1] / "cache").write_text("a file")

    assert load_index([folder], lambda: [_ENTRY]) == (_ENTRY,)


def test_the_index_has_every_description_parsed() -> None:
    documents = [
        document
        for file in Path(log_formats.__path__[0]).glob("*.yaml")
        for document in split_documents(file)
    ]
    assert {document.name for document in documents} == {each.name for each in descriptions()}
    for document in documents:
        assert as_json(parse_yaml(document.text)) is not None, (
            f"{document.name}: quote keys such as true, which JSON has only as text"
        )


@pytest.mark.parametrize("document", [{1: "a"}, {True: "a"}, {"a": (1,)}, {"a": {1}}])
def test_a_document_that_json_changes_is_left_out(document: object) -> None:
    assert as_json(document) is None


def test_reading_a_log_loads_only_what_it_needs(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(synthetic_log("timm", SampleRun([0.5] * 60, gpus=2, interval=5)))
    read = (
        "import sys\n"
        "from trainmark.measure.rules import measure_log\n"
        "from trainmark.programs import read_log\n"
        f"log = read_log({str(log)!r})\n"
        "measure_log(log)\n"
        "assert log.format == 'timm', log\n"
        "heavy = {'pydantic', 'yaml', 'sqlite3', 'trainmark.report', 'trainmark.store', 'trainmark.frameworks'}\n"
        "loaded = {name for name in sys.modules if name.startswith('trainmark.programs.log_formats.')}\n"
        "print(*sorted(heavy & set(sys.modules)), len(loaded) < 10)\n"
    )
    subprocess.run([sys.executable, "-c", read], check=True)  # the index is there from now on

    done = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True)

    assert done.stdout == "True\n"
