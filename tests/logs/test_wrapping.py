"""Logs in UTF-16, and those whose lines containers and log collectors have put into JSON objects."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainmark.logs import ParsedLog, Status
from trainmark.logs.lines.wrapping import unwrap
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import read_log, synthetic_log

_TIME = "2026-05-14T09:12:33.123456789Z"
_NAMES = ("torchtitan", "composer", "diffusers", "megatron-lm", "paddlenlp-transformer")


def _read(folder: Path, data: bytes) -> ParsedLog:
    (folder / "a.log").write_bytes(data)
    return read_log(folder / "a.log")


def _docker(text: str) -> bytes:
    """Return the file of Docker's json-file driver, which writes <, > and & as numbers as Go does."""
    lines = [{"log": line, "stream": "stderr", "time": _TIME} for line in text.splitlines(keepends=True)]
    words = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
    return words.replace("<", "\\u003c").replace(">", "\\u003e").encode()


def _collector(key: str, **more: Any) -> Callable[[str], bytes]:
    def write(text: str) -> bytes:
        lines = ({"severity": "INFO", **more, key: line, "timestamp": _TIME} for line in text.splitlines())
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    return write


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize(
    "wrap",
    [
        _docker,
        _collector("textPayload", insertId="x1", resource={"type": "k8s_container"}),
        _collector("message", lineno=120, process=17),
        _collector("line", labels={"pod": "train-0"}),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-be"),
        lambda text: gzip.compress(_docker(text)),
    ],
    ids=["docker", "google", "python", "loki", "utf-16", "utf-16-be", "gzip"],
)
def test_a_wrapped_log_has_the_number_of_the_log(
    tmp_path: Path, name: str, wrap: Callable[[str], bytes]
) -> None:
    text = synthetic_log(name, SampleRun([0.5] * 120))
    plain, wrapped = _read(tmp_path, text.encode()), _read(tmp_path, wrap(text))

    assert (wrapped.format, wrapped.status, wrapped.facts) == (plain.format, plain.status, plain.facts)
    assert wrapped.records.count == plain.records.count
    assert measure_log(wrapped).value == measure_log(plain).value


def test_a_progress_bar_is_read_from_the_parts_that_docker_writes(tmp_path: Path) -> None:
    head = "***** Running training *****\n  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
    head += "  Total optimization steps = 400\n"
    bars = [f"\r{at // 4}%|# | {at}/400 [{at // 60:02}:{at % 60:02}<05:00,  1.00s/it]" for at in range(400)]
    parts = [*head.splitlines(keepends=True), *bars, "\n"]
    data = "\n".join(json.dumps({"log": part, "stream": "stderr", "time": _TIME}) for part in parts)

    log = _read(tmp_path, data.encode())

    assert measure_log(log).value == pytest.approx(64, rel=0.01)


def test_a_wrapped_log_may_begin_within_a_line(tmp_path: Path) -> None:
    data = _docker(synthetic_log("megatron-lm", SampleRun([0.5] * 100)))

    assert _read(tmp_path, data[len(data) // 2 :]).status is Status.OK


def test_a_line_that_docker_writes_in_parts_is_one_line(tmp_path: Path) -> None:
    text = synthetic_log("megatron-lm", SampleRun([0.5] * 100))
    parts = [part for line in text.splitlines(keepends=True) for part in (line[:40], line[40:]) if part]
    data = "\n".join(json.dumps({"log": part, "stream": "stdout", "time": _TIME}) for part in parts)

    assert measure_log(_read(tmp_path, data.encode())).value == pytest.approx(
        measure_log(_read(tmp_path, text.encode())).value
    )


def test_records_in_json_with_a_message_are_the_programs_own(tmp_path: Path) -> None:
    lines = (
        {"message": "train", "step": at, "loss": 2.5, "tokens_per_sec": 4096.0 + at % 2, "timestamp": _TIME}
        for at in range(1, 100)
    )
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    log = read_log(tmp_path / "a.jsonl", guess=True)

    assert log.status is Status.GUESSED
    assert measure_log(log).value == pytest.approx(4096.5, rel=0.001)


def test_the_time_of_a_wrapped_line_is_a_clock(tmp_path: Path) -> None:
    lines = [
        {"log": f"step {at} loss 2.{at:03} samples seen {at * 64}\n", "stream": "stdout", "time": time}
        for at in range(1, 200)
        for time in [f"2026-05-14T09:{at // 60:02}:{at % 60:02}.5Z"]
    ]
    (tmp_path / "a.log").write_text("\n".join(map(json.dumps, lines)))

    assert measure_log(read_log(tmp_path / "a.log", guess=True)).value == pytest.approx(64, rel=0.02)


@pytest.mark.parametrize("damage", [b'\xff\xfe{"log"', b"\0\0\0\0" * 200, b"{" * 5000, b'{"log": 3}\n' * 20])
def test_what_only_resembles_a_wrapped_log_is_no_error(tmp_path: Path, damage: bytes) -> None:
    assert _read(tmp_path, damage).status in (Status.UNKNOWN, Status.UNREADABLE)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"log": "a},\\n", "stream": "stdout"}', b"a},"),
        (b'{"log": "one", "more": {"of": "it"}},{"log": "two"}', None),
        (b'{"log": "cut off', None),
        (b'{"log": "cut", ', None),
        (b'{"log": "\xff"}', None),
        (b'{"log": "\\ud800"}', b"?"),
        (b"the collector's own line", None),
        (b"", None),
    ],
)
def test_a_line_among_others_is_read_as_it_is_alone(line: bytes, text: bytes | None) -> None:
    """A piece is decoded at once where each of its lines is an object, and line by line otherwise."""
    others = [b'{"log": "step %d"}' % step for step in range(50)]

    read = unwrap(io.BytesIO(b"\n".join([*others, line, *others]) + b"\n")).read()

    plain = [b"step %d" % step for step in range(50)]
    assert read == b"\n".join([*plain, line if text is None else text, *plain]) + b"\n"


_STRANGE = (
    *(
        rb"C:\\new\\",
        rb"a \"word\"",
        rb"\\\"",
        rb"tab\tand \u001b[32mcolour",
        rb"\ud83d\ude00 and \ud800",
        "größer".encode(),
    ),
    *(b"a\ttab", b"\xff", rb"\x", b"", rb"two\nlines", rb"a\r", rb"back\\n", rb"\n"),
)


@pytest.mark.parametrize("text", _STRANGE, ids=repr)
@pytest.mark.parametrize(
    "form",
    [
        b'{"log":"%s","stream":"stdout","time":"2026-05-14T09:12:33.5Z"}',
        b'{"log":"%s\\n","stream":"stdout","time":"2026-05-14T09:12:33.5Z"}',
        b'{"message": "%s", "lineno": 120, "ts": 1.5e9, "exc_info": null}',
        b'{"asctime": "2026-05-14 09:12:33", "message": "%s"}',
        b'{"message": "%s", "labels": {"message": "another"}, "a": ["b", "c"]}',
    ],
    ids=["part", "docker", "numbers", "time", "nested"],
)
@pytest.mark.parametrize("with_times", [False, True])
def test_strings_found_at_once_are_those_that_json_decodes(
    form: bytes, text: bytes, *, with_times: bool
) -> None:
    """Lines of many outlines in turn have few of one, and are decoded as JSON."""
    lines = [form % word for word in (*(b"step %d" % step for step in range(60)), text, *_STRANGE)]
    others = [b'{"log": "a", "message": "b", "x%d": "c"}' % number for number in range(3 * len(lines))]
    log = b"\n".join(lines)

    def read(data: bytes) -> bytes:
        stream, found = unwrap(io.BytesIO(data + b"\n"), with_times=with_times), b""
        while part := stream.read(1 << 20):
            found += part
        return found

    assert read(log) == read(b"\n".join([log, *others]))[: -len(b"a\n" * len(others))]


@pytest.mark.parametrize("number", [b"7", b"-1.5e3", b"null", b"007", b'{"a": 7}', b'"7"', b"NaN"])
def test_numbers_of_a_collector_may_differ_from_line_to_line(number: bytes) -> None:
    lines = [b'{"lineno": %d, "message": "step %d"}' % (step, step) for step in range(90)]
    lines[80] = b'{"lineno": %s, "message": "another"}' % number

    found = unwrap(io.BytesIO(b"\n".join(lines) + b"\n")).read().splitlines()

    assert found[79] == b"step 79"
    assert found[80] == (lines[80] if number == b"007" else b"another")
    assert len(found) == len(lines)
