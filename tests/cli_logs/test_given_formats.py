"""``--format`` reads a log by a described format alone, ``--explain`` prints how a log was read."""

import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from preloading import call_trainmark
from trainmark.cli.log_output import _logs_at
from trainmark.errors import InputError
from trainmark.logs import Facts
from trainmark.logs.lines.transport import FoundPath
from trainmark.programs.reading import described_format, read_by_format

_LOG = "".join(f"done {at} of 90 at {100 + at % 2}.0 img/s now\n" for at in range(1, 91))
_MINE = "title: mine\nunit: images/s\nrecords:\n- 'done {step} of \\d+ at {rate} img/s'\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "a.log").write_text(_LOG)
    return tmp_path / "a.log"


def test_a_file_of_another_name_is_not_taken_for_the_name_of_a_format(log: Path) -> None:
    done = call_trainmark("parse", log, "--format", log)

    assert done.returncode == 2
    assert done.stderr == (
        f"trainmark parse: {log}: the name of a file that describes a format ends in .yaml\n"
    )


def _described(folder: Path, text: str = _MINE) -> Path:
    (folder / "mine.yaml").write_text(text)
    return folder / "mine.yaml"


def test_a_log_is_read_by_the_file_that_describes_its_format(tmp_path: Path, log: Path) -> None:
    done = call_trainmark("parse", log, "--format", _described(tmp_path), "--json")

    row = json.loads(done.stdout)
    assert (row["format"], row["status"], row["unit"]) == ("mine", "ok", "images/s")
    assert row["throughput"] == pytest.approx(100.5, rel=1e-3)
    assert done.returncode == 0


def test_a_known_name_may_be_given_too_and_no_other_format_is_tried(log: Path) -> None:
    done = call_trainmark("parse", log, "--format", "timm", "--json")

    assert json.loads(done.stdout)["status"] == "unknown"
    assert done.returncode == 1


def test_standard_input_is_read_by_the_given_format(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "trainmark.cli.main",
            "parse",
            "-",
            "--format",
            _described(tmp_path),
            "--json",
        ],
        input=_LOG.encode(),
        capture_output=True,
        check=False,
    )

    row = json.loads(done.stdout)
    assert (row["log"], row["format"], row["unit"]) == ("-", "mine", "images/s")


def test_members_of_an_archive_are_read_by_the_given_format(tmp_path: Path, log: Path) -> None:
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(log, "a.log")

    done = call_trainmark("parse", tmp_path / "logs.tar", "--format", _described(tmp_path), "--json")

    assert json.loads(done.stdout)["format"] == "mine"


@pytest.mark.parametrize(
    "words",
    [("--follow", "LOG"), ("--tree", "."), ("LOG", "--to", "dlperf-json")],
    ids=lambda words: words[0],
)
def test_a_format_is_refused_where_it_would_be_ignored(log: Path, words: tuple[str, ...]) -> None:
    done = call_trainmark(
        "parse", *(str(log) if word == "LOG" else word for word in words), "--format", "timm"
    )

    assert done.returncode == 2
    assert "--format is for paths" in done.stderr


def test_two_logs_are_compared_by_the_given_format(tmp_path: Path, log: Path) -> None:
    done = call_trainmark("compare", log, log, "--format", _described(tmp_path), "--json")

    found = json.loads(done.stdout)
    assert (found["baseline"]["format"], found["candidate"]["format"]) == ("mine", "mine")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title: x\nunit: images/s\nrecord: ['a']\n", "unknown key 'record'; did you mean 'records'"),
        ("title: x\nunit: images/s\n", "the key 'records' is missing"),
        ("title: x\nunit: images/s\nrecords: ['{step} {rat}']\n", "no field 'rat'; did you mean 'rate'"),
        ("title: x\nunit: images/s\nrecords: ['{step} (']\n", "is not a regular expression"),
        (
            "title: x\nunit: images/s\nrecords: ['(?:a+)+ {step}']\n",
            "can match the same text in several ways",
        ),
        ("title: x\nunit: images/s\nrecords: ['{rate:Q}']\n", "use {rate:K}"),
        ("title: x\nunit: images/s\nrecords: ['nothing']\n", "has no field"),
        ("title: x\nunit: images/s\nrate_of: gpu\nrecords: ['{rate}']\n", "expected all or node or device"),
        ("title: x\nunit: images/s\nwarmup_steps: many\nrecords: ['{rate}']\n", "expected a whole number"),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nfacts: {gpu: 'a'}\n",
            "no fact 'gpu'; did you mean 'gpus'",
        ),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nfacts: {gpus: '= 2 ** 3'}\n",
            "is not names, numbers",
        ),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nfacts: {gpus: '= tp * 2'}\n",
            "no value or fact 'tp'",
        ),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nfacts: {gpus: {setting: a, within: 'b'}}\n",
            "'within' needs a 'pattern'",
        ),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nfacts: {gpus: {pattern: a, within: '('}}\n",
            "gpus: within: '(' is not a regular expression",
        ),
        (
            "title: x\nunit: images/s\nrecords: ['{rate}']\nlast_step: = steps\n",
            "last_step: no value or fact 'steps'",
        ),
        (
            _MINE + "doubts: [{pattern: a, code: b, message: c, severity: bad}]\n",
            "severity is 'bad'; expected",
        ),
        (_MINE + "fp16: nope\n", "fp16 is 'nope'; expected fp32 or"),
        (_MINE + "published: [{rule: mean}]\n", "published[0]: expected the keys rule and by"),
        (_MINE + "facts: {precision: {pattern: a, is: fp17}}\n", "no precision 'fp17'; did you mean 'fp16'"),
        (_MINE + "facts: {precision: [{setting: a, words: {x: f16}}]}\n", "no precision 'f16'"),
        (_MINE + "facts: {precision: {setting: a, words: fp16}}\n", "precision: words is 'fp16'"),
        (_MINE + "values: {a: '= b', b: '= a'}\n", "a, b: found only by each other"),
        (_MINE + "values: {a: '= a * 2'}\n", "a: found only by itself"),
        (_MINE + "facts: \n", "facts has no value"),
        ("title: x\nunit: images/s\nrecords: ['(?:a|a)+b {step}']\n", "in several ways"),
        ("title: x\nunit: images/s\nrecords: ['(?:\\w+ \\w+)+ {step}']\n", "in several ways"),
        ("title: [", "is not YAML"),
        ("- a\n", "expected keys with values"),
    ],
)
def test_a_mistake_in_a_description_is_one_line_with_the_file(
    tmp_path: Path, log: Path, text: str, words: str
) -> None:
    done = call_trainmark("parse", log, "--format", _described(tmp_path, text))

    assert done.returncode == 2
    assert words in done.stderr
    assert "mine.yaml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_facts_that_each_replace_the_other_are_unknown_if_neither_is_printed(
    tmp_path: Path, log: Path
) -> None:
    text = _MINE + "facts: {gpus: ['gpus=(\\d+)', '= nodes'], nodes: ['nodes=(\\d+)', '= gpus']}\n"
    done = call_trainmark("parse", log, "--format", _described(tmp_path, text), "--json")

    assert json.loads(done.stdout)["gpus"] is None


def test_a_pattern_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.programs.reading._BOUND_S", 0.5)
    (tmp_path / "a.log").write_text(f"c 1 {'ab' * 40} done\n" * 50)
    known = described_format(
        {"title": "x", "unit": "images/s", "records": ["\\w*\\w*\\w*\\w*\\w*c {rate} done"]}, "x.yaml", "x"
    )
    slow = replace(known, mark=known.records[0])

    with pytest.raises(InputError, match=r"took more than 0\.5 s of CPU time"):
        read_by_format(tmp_path / "a.log", slow, None)


def test_explain_prints_lines_facts_witnesses_and_the_number(tmp_path: Path, log: Path) -> None:
    done = call_trainmark("parse", log, "--format", _described(tmp_path), "--explain")

    assert "pattern 1: matches 90 of the first 90 lines" in done.stdout
    assert "step = 1, rate = 101.0" in done.stdout
    assert "by the printed rate: 100.49" in done.stdout


def test_explain_prints_the_proposed_format_of_an_unknown_log(log: Path) -> None:
    done = call_trainmark("parse", log, "--explain")

    assert done.returncode == 1
    assert "guessed" in done.stdout
    assert "records:\n- ^ *done +{step}.*?at +{rate} +\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("-",), "not standard input"), (("nothing",), "needs a file"), (("--json", "LOG"), "leave out --json")],
)
def test_explain_needs_a_file_and_prints_text(log: Path, words: tuple[str, ...], expected: str) -> None:
    done = call_trainmark("parse", "--explain", *(str(log) if word == "LOG" else word for word in words))

    assert done.returncode == 2
    assert expected in done.stderr


def test_explain_of_a_damaged_log_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\x1f\x8b damaged")

    done = call_trainmark("parse", tmp_path / "a.log", "--format", "timm", "--explain")

    assert done.returncode == 1
    assert "the gzip stream is damaged or cut" in done.stdout


def test_a_folder_that_cannot_be_walked_is_named_with_its_own_sentence() -> None:
    found = FoundPath("logs", "the folder cannot be read: Permission denied")

    (log,) = _logs_at(found, None, Facts())

    assert [problem.message for problem in log.problems] == ["the folder cannot be read: Permission denied"]


def test_a_pattern_that_matches_no_line_is_explained(tmp_path: Path, log: Path) -> None:
    mine = _described(tmp_path, _MINE.replace("done {step} of", "done {step} out of"))

    plain = call_trainmark("parse", log, "--format", mine)
    explained = call_trainmark("parse", log, "--format", mine, "--explain")

    assert "no line matches the format 'mine': --explain" in plain.stdout
    assert "it matches up to 'done 1 o'; then 'ut of '" in explained.stdout
    assert "and 'f 90 at 101.0 img/s now' follows" in explained.stdout


def test_a_number_of_printed_figures_alone_is_named_as_such(tmp_path: Path, log: Path) -> None:
    stamped = tmp_path / "stamped.log"
    stamped.write_text(
        "".join(f"2026-01-01 00:{at:02}:00 {line}\n" for at, line in enumerate(_LOG.splitlines()[:60]))
    )

    unconfirmed = call_trainmark("parse", log, "--format", _described(tmp_path), "--explain")
    mine = _described(tmp_path, _MINE.replace("done {step}", "{stamp} done {step}"))
    confirmed = call_trainmark("parse", stamped, "--format", mine, "--explain")

    assert "no clock confirms the printed figures: they may leave out loading" in unconfirmed.stdout
    log.with_name("train.arrivals").write_text("")
    of_run = call_trainmark("parse", log, "--format", _described(tmp_path), "--explain")
    assert "no clock confirms the printed figures: train.arrivals next to the log has one" in of_run.stdout
    assert "no clock confirms" not in confirmed.stdout


def test_blanks_that_only_some_lines_have_more_of_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "".join(f"done {at:>3} of 150 at 100.0 img/s now\n" for at in range(1, 151))
    )

    done = call_trainmark("parse", tmp_path / "a.log", "--format", _described(tmp_path), "--explain")

    assert "matches 51 of the first 150 lines" in done.stdout
    assert "the line has several blanks, so write ' +' for them" in done.stdout
