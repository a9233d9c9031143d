"""Text that comes from elsewhere cannot control a terminal: one policy for terminals, reports and CSV files."""

import json
import sys
from pathlib import Path

import pytest
from markupsafe import Markup

from fakes import Bench, behaving
from trainmark.campaign.log_measurement import last_line_of
from trainmark.cli.main import main
from trainmark.printable import folded, printable, printable_line, significant
from trainmark.report.csvfile import render_csv, render_runs_csv
from trainmark.report.writing import page_environment
from trainmark.schema.measurement import About, Suspicion

CAN = pytest.CaptureFixture[str]
COLOUR = "\x1b[31m"
SOURCES = Path(__file__).parents[2] / "src" / "trainmark"


def test_control_characters_are_escaped_and_other_text_stays() -> None:
    text = "é 中\u3000 100 %\n"
    assert printable(text) == text
    assert printable("a\x1b[31mb\x9b2J\rc\td\x7f") == "a\\u001b[31mb\\u009b2J\\u000dc d\\u007f"
    assert printable("\u202etxt\udcff\u2028") == "\\u202etxt\\udcff\\u2028"
    assert printable_line("a\nb") == "a\\nb"


def test_json_stays_valid_and_means_the_same() -> None:
    value = {"name": "a\x1b[31m\x9b\u202e\u3000"}
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value


def test_a_log_name_with_control_characters_does_not_reach_the_terminal(tmp_path: Path, capsys: CAN) -> None:
    path = tmp_path / f"{COLOUR}run.log"
    path.write_text("Epoch: [0][10/100]  Time 0.5\n")
    main(["parse", str(path)])
    main(["parse", str(tmp_path / f"{COLOUR}absent.log")])
    main([f"{COLOUR}verb"])
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert "\x1b" not in text
    assert "\\u001b[31mrun.log" in shown.out
    assert "\\u001b[31mabsent.log" in shown.err


def test_events_with_control_characters_reach_neither_csv_nor_the_terminal(bench: Bench) -> None:
    bench.write(behaving("well"))
    results = bench.run()
    doubt = Suspicion(code=f"{COLOUR}code", sentence=f"{COLOUR}sentence", about=About.WORK)
    (case,) = results.cases
    runs = tuple(run.model_copy(update={"suspicions": (doubt,), "reason": COLOUR}) for run in case.runs)
    changed = case.model_copy(update={"runs": runs, "reason": COLOUR})
    hostile = results.model_copy(update={"cases": (changed,), "findings": None})
    for text in (render_csv(hostile), render_runs_csv(hostile)):
        assert "\x1b" not in text
        assert "\\u001b[31m" in text


def test_a_log_whose_last_line_is_a_bar_ends_with_the_bars_last_state(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"start\n 10%|# | 1/10\r100%|##| 10/10 \x1b[0m\r\n\n")

    assert last_line_of(log) == "; its last line: 100%|##| 10/10 \\u001b[0m"
    log.write_bytes(b"\n \n")
    assert last_line_of(log) == "; the program printed nothing"


def test_every_text_of_a_page_is_shown_by_the_same_rule() -> None:
    template = page_environment().from_string('<p title="{{ text }}">{{ text }}{{ markup }}</p>')

    shown = template.render(text=f"{COLOUR}<b>", markup=Markup("<i></i>"))

    assert shown == '<p title="\\u001b[31m&lt;b&gt;">\\u001b[31m&lt;b&gt;<i></i></p>'


def test_no_other_place_has_a_policy_of_its_own() -> None:
    found = [
        str(path.relative_to(SOURCES))
        for path in sorted(SOURCES.rglob("*.py"))
        if "isprintable" in path.read_text(encoding="utf-8")
    ]
    assert found == ["schema/job.py"], "a job's folder is refused if it is not printable"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(227561.4, "227560"), (75989.2, "75989"), (921.05, "921.05"), (0.76599, "0.76599"), (1.2e-7, "1.2e-07")],
)
def test_a_large_number_has_no_exponent(value: float, shown: str) -> None:
    assert significant(value) == shown


def test_a_line_is_folded_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "doubt       " + "the program waits for its data " * 5 + "/a/path/that-is-longer-than-the-room-for-it"
    )
    monkeypatch.setenv("COLUMNS", "40")
    assert folded(line, 12) == line

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    first, *others = folded(line, 12).split("\n")
    assert first.startswith("doubt       the program")
    assert all(other.startswith(" " * 12) and other[12] != " " for other in others)
    assert all(len(other) <= 40 for other in (first, *others[:-1]))
    assert others[-1].strip() == "/a/path/that-is-longer-than-the-room-for-it"
    assert " ".join(part.strip() for part in (first, *others)).split() == line.split()
    monkeypatch.setenv("COLUMNS", "20")
    assert folded(line, 12) == line
