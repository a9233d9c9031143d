"""Keys of a format's description: where the end of a run is found, and facts of one section of a log."""

import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from trainmark import logs
from trainmark.errors import InputError
from trainmark.logs.description import build_format, parse_description
from trainmark.logs.format import Format, GivenFormats, LogContext
from trainmark.logs.lines.fields import derived, extract
from trainmark.logs.model import Column, EndState, Facts, Meaning, ParsedLog, Records, Severity
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import find_format


def _format(**keys: object) -> Format:
    document = {"title": "x", "unit": "images/s", "records": ["step {step} {rate} done"], **keys}
    return build_format(parse_description(document, "x.yaml", "x"))


def _read(text: str, record: str) -> ParsedLog:
    known = GivenFormats((_format(records=[record]),))
    return logs.read_stream(io.BytesIO(text.encode()), known, given=Facts(gpus=1, batch_per_device=32))


def _context(text: str, step: int | None, interval: int = 10, epoch: int | None = None) -> LogContext:
    words = text.encode()
    return LogContext(
        head=words, tail=words, text=words, last_step=step, step_interval=interval, last_epoch=epoch
    )


@pytest.mark.parametrize(
    ("text", "step", "expected"),
    [
        ("step 95/100", 95, EndState.FOUND),
        ("step 90/100", 90, EndState.MISSING),
        ("step 100/100", 100, EndState.FOUND),
        ("step 100", 100, EndState.UNKNOWN),
    ],
)
def test_a_run_ends_with_the_record_at_the_printed_total(text: str, step: int, expected: EndState) -> None:
    known = _format(last_step=r"step \d+/(\d+)")

    assert known.end_state(_context(text, step)) is expected


@pytest.mark.parametrize(("epoch", "expected"), [(1, EndState.MISSING), (2, EndState.FOUND)])
def test_a_run_ends_in_its_last_epoch_with_the_line_of_the_end(epoch: int, expected: EndState) -> None:
    known = _format(
        end="END epoch", last_epoch="= epochs - 1", values={"epochs": {"pattern": r"epochs: (\d+)"}}
    )

    assert known.end_state(_context("epochs: 3\nEND epoch", 10, epoch=epoch)) is expected


@pytest.mark.parametrize(("step", "expected"), [(80, EndState.MISSING), (95, EndState.UNKNOWN)])
def test_a_log_that_stops_within_an_epoch_is_incomplete(step: int, expected: EndState) -> None:
    known = _format(last_step_of_epoch=r"of (\d+)")

    assert known.end_state(_context("of 100", step)) is expected


def test_a_fact_is_searched_for_in_its_section_only() -> None:
    known = _format(
        facts={"global_batch": {"pattern": r"batch: (\d+)", "within": r"^TRAIN:\n((?:  [^\n]*\n)+)"}}
    )

    assert known.facts(_context("TEST:\n  batch: 1\nTRAIN:\n  batch: 8\n", 1)).global_batch == 8
    assert known.facts(_context("TEST:\n  batch: 1\n", 1)).global_batch is None


@pytest.mark.parametrize(
    ("text", "first", "codes"),
    [
        ("begin", 10, []),
        ("begin", 500, ["resumed"]),
        ("resumed at 490", 500, ["resumed"]),
        ("no start", 500, []),
    ],
)
def test_averages_since_the_start_of_a_resumed_run_are_in_doubt(
    text: str, first: int, codes: list[str]
) -> None:
    known = _format(averages_since_start=True, resumed_from=r"resumed at (\d+)", start="begin")
    context = replace(_context(text, 600), first_step=first)

    assert known.doubts is not None
    assert [problem.code for problem in known.doubts(context)] == codes


_LAUNCH = "LAUNCH INFO 2023-07-28 07:49:49,627 "


def test_the_launcher_gives_the_devices_that_no_fact_gives() -> None:
    known = _format(
        launcher="paddle",
        facts={"gpus": ["alone", "= nodes * launcher_gpus_per_node"], "batch_per_device": "b(\\d+)"},
    )
    facts = known.facts(_context(f"{_LAUNCH}devices: 0,1,2,3\n{_LAUNCH}nnodes: 2\n b16", 1))

    assert (facts.nodes, facts.gpus, facts.gpus_per_node, facts.batch_per_device) == (2, 8, 4, 16)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AMP:\n use_amp: True\nEND", "amp-fp16"),
        ("AMP:\n use_amp: False\nEND", "fp32"),
        ("AMP:\nEND use_amp: True", None),
    ],
)
def test_mixed_precision_is_read_within_a_section(text: str, expected: str | None) -> None:
    source = {
        "mixed_precision": True,
        "within": r"AMP:\n([\s\S]*)END",
        "words": {True: "amp-fp16", False: "fp32"},
    }

    assert _format(facts={"precision": source}).facts(_context(text, 1)).precision == expected


def test_a_run_that_the_launcher_stopped_is_stopped_whatever_line_follows() -> None:
    known = _format(launcher="paddle", last_step=r"of (\d+)")
    stopped = f"of 100\n{_LAUNCH}Terminating with signal 15\nstep 10 of 100"

    assert known.end_state(_context(stopped, 10)) is EndState.STOPPED
    assert known.end_state(_context(stopped, 100)) is EndState.FOUND


def test_a_record_of_another_kind_may_average_over_something_else() -> None:
    known = _format(
        rate_covers="epoch",
        records=["step {step} {rate} done", {"pattern": "old {step} {rate} done", "rate_covers": "step"}],
    )

    assert known.pattern_meanings == (Meaning.RUNNING, Meaning.SAMPLED)
    with pytest.raises(InputError, match=r"records\[0\]: rate_covers is 'all'; expected interval or"):
        _format(records=[{"pattern": "step {step} {rate} done", "rate_covers": "all"}])


@pytest.mark.parametrize(
    "records", [["a {step} {rate} end", "b {step} {rate} end"], ["a {step} (?P=step) {rate} end"]]
)
def test_a_format_without_a_mark_is_recognised_by_its_records(records: list[str]) -> None:
    known = _format(records=records)

    assert known.mark.search(b"a 1 1 2.5 end" if len(records) == 1 else b"b 1 2.5 end")
    assert known.mark.search(b"c 1 2.5 end") is None


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --batch-size 32 --lr 1",
        "python train.py --batch_size=32",
        "Namespace(eval_batch_size=8, batch_size=32)",
        "eval-batch-size: 8\nbatch_size : 32\n",
    ],
)
def test_a_switch_is_read_from_a_command_or_from_printed_arguments(text: str) -> None:
    known = _format(facts={"batch_per_device": {"switch": "batch-size"}})

    assert known.facts(_context(text, 10)).batch_per_device == 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--amp --lr 1", "amp-fp16"),
        ("--amp \\\n  --lr 1", "amp-fp16"),
        ("--amp=False", "fp32"),
        ("--amp-dtype False", None),
        ("samples", None),
    ],
)
def test_a_switch_without_a_value_is_true(text: str, expected: str | None) -> None:
    known = _format(facts={"precision": {"switch": "amp", "words": {True: "amp-fp16", False: "fp32"}}})

    assert known.facts(_context(text, 10)).precision == expected


def test_a_switch_is_named_without_its_dashes() -> None:
    with pytest.raises(InputError, match=r"x\.yaml: batch_per_device: switch: '--batch' is not a name"):
        _format(facts={"batch_per_device": {"switch": "--batch"}})


@pytest.mark.parametrize("on", [True, "true", "True"])
@pytest.mark.parametrize(
    ("word", "expected"),
    [("True", "bf16"), ("1", "bf16"), ("yes", "bf16"), ("0", "fp32"), ("none", "fp32"), ("O2", None)],
)
def test_a_printed_switch_has_several_spellings(on: object, word: str, expected: str | None) -> None:
    source = {"pattern": r"amp: (\w+)", "words": {on: "bf16", "False": "fp32"}}

    assert _format(facts={"precision": source}).facts(_context(f"amp: {word}\n", 10)).precision == expected


def test_a_number_in_words_is_no_switch() -> None:
    source = {"pattern": r"level: (\w+)", "words": {1: "bf16"}}

    assert _format(facts={"precision": source}).facts(_context("level: yes\n", 10)).precision is None
    assert _format(facts={"precision": source}).facts(_context("level: 1\n", 10)).precision == "bf16"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gluoncv-detection", "Namespace(amp=1, gpus='0')"),
        ("nvidia-ncf", "DLL 2023-08-04 05:47:50.000000 - PARAMETER amp : yes \n"),
        ("nvidia-tacotron2", "DLL 2023-08-04 05:47:50.000000 - PARAMETER fp16_run : 1 \n"),
        ("nvidia-transformer-xl", "Namespace(fp16=1)"),
        ("ngc-pytorch-convnets", "DLL 2023-08-04 05:47:50.000000 - PARAMETER amp : true  arch : a \n"),
        ("ngc-tensorflow-convnets", "DLL 2023-08-04 05:47:50.000000 - PARAMETER amp : 1  arch : a \n"),
        ("paddlenlp-bert", "Namespace(use_amp=1)"),
    ],
)
def test_formats_read_a_switch_by_each_spelling(name: str, text: str) -> None:
    assert find_format(name).facts(_context(text, 10)).precision == "amp-fp16"


_SPREAD = {
    "lines": ["^row {step} starts", "speed={rate,} /s", "seen={consumed,K} so far"],
}


def _spread_rows(*pieces: str) -> list[tuple[int | None, float | None, float | None]]:
    known = _format(records=[_SPREAD])
    blocks = (derived(extract(known.records[0], piece.encode()).columns) for piece in pieces)
    assert known.transform is not None
    merged = list(known.transform(block for block in blocks if block))
    columns = {name: np.concatenate([block[name] for block in merged]) for name in merged[0]}
    records = Records(count=len(columns["step"]), **{name: Column.of(columns[name]) for name in columns})
    return [(row.step, row.rate, row.consumed) for row in records.rows()]


def test_a_record_may_be_spread_over_lines_and_over_pieces_of_the_log() -> None:
    rows = _spread_rows(
        "speed=9 /s\nrow 1 starts\n  speed=1,000 /s\n  other=3\n  seen=1.5K so far\nrow 2 starts\n",
        "  speed=2,000 /s\n  seen=3K so far\nrow 3 starts\n  seen=4,500 so far\n",
        "row 4 starts\n  speed=4,000 /s\n",
    )

    assert rows == [(1, 1000, 1500), (2, 2000, 3000), (3, None, 4500), (4, 4000, None)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"lines": ["step {step} starts"]}, "two patterns or more"),
        (
            {"lines": ["step {step} a", "rate {rate} b", "again {rate} c"]},
            "the field 'rate' is in an earlier line",
        ),
        ({"lines": ["step {step} a", "nothing"]}, "the pattern has no field"),
        ({"lines": ["step {step} a", "rate {rate} b"], "pattern": "x {rate} y"}, "pattern or lines"),
    ],
)
def test_a_mistake_in_a_record_of_several_lines_is_named(record: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        _format(records=[record])


def test_records_of_several_lines_begin_with_the_same_line() -> None:
    other = {"lines": [r"at {step}\s", *_SPREAD["lines"][1:]]}

    assert len(_format(records=[_SPREAD, {**_SPREAD, "unit": "samples/s"}]).records) == 2
    with pytest.raises(InputError, match="the same first line"):
        _format(records=[_SPREAD, other])


def _codes(known: Format, text: str) -> list[tuple[str, str]]:
    assert known.doubts is not None
    context = replace(_context(text, 10), notes=_notes(known, text))
    return [(problem.code, problem.message) for problem in known.doubts(context)]


def _notes(known: Format, text: str) -> bytes:
    return b"" if known.notes is None else b"".join(m[0] + b"\n" for m in known.notes.finditer(text.encode()))


def test_a_doubt_may_need_several_matches_in_the_whole_log() -> None:
    doubt = {"pattern": "^Config:", "times": 2, "code": "several-runs", "message": "printed {times} times"}
    known = _format(doubts=[doubt])

    assert _codes(known, "Config:\n lr: 1\n") == []
    assert _codes(known, "Config:\n lr: 1\nConfig:\n") == [("several-runs", "printed 2 times")]


@pytest.mark.parametrize(
    ("rate", "expected"), [("1,000", []), ("990", []), ("500", [("off", "500 of 1000")])]
)
def test_a_doubt_may_compare_numbers_of_a_line_with_each_other_and_with_facts(
    rate: str, expected: list[tuple[str, str]]
) -> None:
    doubt = {
        "pattern": "dt {step_time_ms} at {rate,} end",
        "equal": ["rate * step_time_ms / 1000", "global_batch"],
        "within": 0.02,
        "code": "off",
        "message": "{left:.0f} of {right:.0f}",
    }
    known = _format(doubts=[doubt], facts={"global_batch": r"batch: (\d+)"})

    assert _codes(known, f"batch: 1000\ndt 1000 at {rate} end\n") == expected
    assert _codes(known, f"dt 1000 at {rate} end\n") == []  # nothing to compare with


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"times": 0}, "times is '0'; expected a whole number"),
        ({"equal": ["rate"]}, "equal: expected a list of two"),
        ({"equal": ["rate", "speed"]}, "equal: no value or fact 'speed'"),
        ({"message": "{left}"}, "message: no field 'left'"),
        ({"message": "{"}, "message: cannot be filled in: "),
        ({"severity": "fatal"}, "severity is 'fatal'"),
        ({"often": 2}, "expected pattern, code, message"),
    ],
)
def test_a_mistake_in_a_doubt_is_named(wrong: dict[str, object], sentence: str) -> None:
    doubt = {"pattern": "at {rate} end", "code": "off", "message": "off", **wrong}

    with pytest.raises(InputError, match=rf"x\.yaml: doubts\[0\]: {re.escape(sentence)}"):
        _format(doubts=[doubt])


def test_the_largest_of_several_numbers_is_a_source() -> None:
    source = {"pattern": r"init rank (\d+)", "largest": True}
    known = _format(facts={"gpus": "= last + 1"}, values={"last": source})

    assert known.facts(_context("init rank 3\ninit rank 0\n", 10)).gpus == 4
    assert known.facts(_context("init rank\n", 10)).gpus is None
    with pytest.raises(InputError, match="'largest' needs a 'pattern' alone"):
        _format(facts={"gpus": {"setting": "rank", "largest": True}})


def test_a_program_that_prints_only_results_has_no_records() -> None:
    document = {
        "title": "x",
        "unit": "images/s",
        "mark": "result",
        "figures": {"summary": r"result ([\d.]+) "},
    }

    assert build_format(parse_description(document, "x.yaml", "x")).records == ()
    with pytest.raises(InputError, match="the key 'records' is missing"):
        parse_description({"title": "x", "unit": "images/s"}, "x.yaml", "x")


def test_seconds_of_several_steps_are_the_time_of_one() -> None:
    known = _format(records=[r"{step} Time\({steps} iters\): {seconds}s loss"])
    columns = derived(
        extract(known.records[0], b"100 Time(50 iters): 12.5s loss\n200 Time(0 iters): 1.0s loss\n").columns
    )

    assert columns["step_time_s"][0] == pytest.approx(0.25)
    assert math.isnan(columns["step_time_s"][1])


def test_a_record_may_start_with_a_line_of_a_stamp_or_of_another_unit() -> None:
    for first, value in (("at {stamp} begins", 12.0), ("took {step_time_ms} ms", 0.5)):
        known = _format(records=[{"lines": [first, "speed {rate} /s"]}])
        text = "at 1970-01-01 00:00:12 begins\ntook 500 ms\nspeed 3 /s\nat 1970-01-01 00:00:24 begins\ntook 700 ms\n"
        block = derived(extract(known.records[0], text.encode()).columns)
        assert known.transform is not None
        rows = next(known.transform(iter([block])))

        column = rows["clock_s" if "stamp" in first else "step_time_s"]
        assert (column[0], rows["rate"][0]) == (value, 3.0)


@pytest.mark.parametrize(("first", "expected"), [(40, [("resumed", "from 50, not 40")]), (50, []), (60, [])])
def test_a_doubt_may_hold_a_value_against_the_first_record(
    first: int, expected: list[tuple[str, str]]
) -> None:
    doubt = {
        "value": "start",
        "above": "first_step",
        "code": "resumed",
        "message": "from {value:.0f}, not {above:.0f}",
    }
    known = _format(doubts=[doubt], values={"start": r"resumed from (\d+)"})
    assert known.doubts is not None

    found = known.doubts(replace(_context("resumed from 50\n", 90), first_step=first))

    assert [(problem.code, problem.message) for problem in found] == expected
    assert known.doubts(replace(_context("", 90), first_step=first)) == ()


def test_of_several_doubts_with_one_code_the_first_is_shown() -> None:
    doubts = [{"pattern": word, "code": "off", "message": word} for word in ("one", "two", "three")]
    known = _format(doubts=doubts)

    assert _codes(known, "three two\n") == [("off", "two")]


def _measured(text: str, *records: object, **keys: object) -> float | None:
    known = _format(records=list(records), **keys)
    log = logs.read_stream(io.BytesIO(text.encode()), GivenFormats((known,)), "-", Facts())
    return measure_log(log, find_rule("window", 0)).value


def test_samples_and_seconds_of_a_record_make_its_rate() -> None:
    text = "".join(f"step {at} done: 100 images in {at % 2 + 1}.0 s\n" for at in range(1, 41))

    assert _measured(text, "step {step} done: {samples} images in {seconds} s") == pytest.approx(100 / 1.5)


def test_a_batch_with_only_time_stamps_makes_the_number() -> None:
    text = "".join(
        f"2026-03-01 12:{at:02}:00 step {10 * at}, batch size: 48, loss 1\n" for at in range(1, 41)
    )

    assert _measured(text, "{stamp} step {step}, batch size: {batch},") == pytest.approx(8.0)


def test_varying_batches_with_only_time_stamps_give_no_number() -> None:
    text = "".join(
        f"2026-03-01 12:{at:02}:00 step {10 * at}, batch size: {40 + at}, loss 1\n" for at in range(1, 41)
    )

    assert _measured(text, "{stamp} step {step}, batch size: {batch},") is None


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("tick {step} took {seconds} s", r"needs \{steps\}, \{samples\} or \{rate\} too"),
        ({"lines": ["at {step} rate {rate} ok", "took {seconds} s"]}, r"lines\[1\].*of a whole record"),
        ({"lines": ["at {step} took {step_time_s} s", "load {extra_time_s} s"]}, "must be in the same line"),
    ],
)
def test_a_field_that_needs_another_in_its_line_is_named(record: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _format(records=[record])


def test_a_duration_is_the_time_of_a_step() -> None:
    lines = "".join(f"{epoch} 0.41 {took}\n" for epoch, took in enumerate(("00:12", "1:00:12", "02:00.5"), 1))

    log = _read(lines, "^{step} {number} {step_duration}\\s")

    assert log.records.step_time_s is not None
    assert log.records.step_time_s.array(0, 3).tolist() == [12, 3612, 120.5]


def test_two_clocks_in_a_line_are_an_error() -> None:
    with pytest.raises(InputError, match="use one of them; how long a step or an epoch took"):
        _format(records=["{stamp} Epoch {step} took {elapsed} "])


def test_a_log_without_any_time_is_refused_with_what_to_print() -> None:
    lines = "".join(f"{step} loss 0.41\n" for step in range(100))
    log = _read(lines, "^{step} loss")

    assert any("print the time before each line" in problem.message for problem in measure_log(log).problems)


def test_a_stamp_of_glog_is_a_clock_over_the_end_of_a_month() -> None:
    lines = "".join(
        f"I{day} {time}.500000 139 train.cc:48] step {step} done\n"
        for step, (day, time) in enumerate((("1130", "23:59:50"), ("1201", "00:00:00"), ("1201", "00:00:10")))
    )

    log = _read(lines, "^{glog_stamp} .* step {step} done")

    assert log.records.clock_s is not None
    assert np.diff(log.records.clock_s.array(0, 3)).tolist() == [10, 10]


def test_lines_every_few_seconds_are_weighted_by_their_steps() -> None:
    covered = [(37 * at) % 101 + 20 for at in range(40)]
    lines = "".join(
        f"[{step}] steps_per_sec={steps / 10} now\n"
        for step, steps in zip(np.cumsum(covered), covered, strict=True)
    )
    log = _read(lines, r"\[{step}\] steps_per_sec={steps_per_s} now")

    result = measure_log(log)

    assert result.skipped == 1
    assert result.value == pytest.approx(32 * sum(covered[1:]) / 390)
    assert [one.value for one in result.witnesses if one.name == "step time"] == [pytest.approx(result.value)]
    assert "uneven-steps" not in {problem.code for problem in (*log.problems, *result.problems)}


def test_a_clock_of_whole_seconds_agrees_with_faster_records() -> None:
    lines = "".join(
        f"step {at} {53 + at % 2}.0 img/s {int(0.6 * at) // 60:02}:{int(0.6 * at) % 60:02} left\n"
        for at in range(300)
    )
    log = _read(lines, "step {step} {rate} img/s {elapsed} left")

    result = measure_log(log)

    (stamps,) = [one.value for one in result.witnesses if one.name == "time stamps"]
    assert stamps == pytest.approx(53.5, rel=0.02)
    assert not {"witnesses-disagree", "rates-contradict-clock"} & {
        problem.code for problem in (*log.problems, *result.problems)
    }


def test_a_step_time_with_a_rate_and_a_counter_of_samples_is_no_time_of_a_sample() -> None:
    lines = "".join(
        f"total {64 * at} at 32.0 samples/s, took 2.0 s, {2 * at // 60:02}:{2 * at % 60:02} left\n"
        for at in range(1, 100)
    )
    known = _format(
        records=["total {step} at {rate} samples/s, took {step_time_s} s, {elapsed} left"],
        counts_samples=True,
    )
    log = logs.read_stream(io.BytesIO(lines.encode()), GivenFormats((known,)), "-", Facts())

    result = measure_log(log)

    assert [one.value for one in result.witnesses if one.name == "time stamps"] == [pytest.approx(32.0)]
    assert "rates-contradict-clock" not in {problem.code for problem in (*log.problems, *result.problems)}


def test_a_counter_printed_more_often_than_the_rate_makes_no_record() -> None:
    lines = "".join(
        f"total={at}, return=3\n" + (f"pace: {50 + at % 3}\n" if at % 4 == 0 else "") for at in range(1, 201)
    )
    known = _format(records=[{"lines": ["^total={step},", "^pace: {rate}\\s"]}])
    log = logs.read_stream(io.BytesIO(lines.encode()), GivenFormats((known,)), "-", Facts())

    assert log.records.count == 50
    assert log.records.step is not None
    assert log.records.step.array(0, 3).tolist() == [4, 8, 12]
    assert "numbers-unread" not in {problem.code for problem in log.problems}


@pytest.mark.parametrize(("last", "batch"), [(0, 64), (1, None)])
def test_the_batch_of_a_step_is_counted_if_all_steps_have_it(last: int, batch: int | None) -> None:
    lines = "".join(f"{at}: 0.25 seconds, {64 * at + (at == 100) * last} images\n" for at in range(1, 101))
    known = _format(records=["^{step}: {step_time_s} seconds, {consumed} images"])
    log = logs.read_stream(io.BytesIO(lines.encode()), GivenFormats((known,)), "-", Facts())

    result = measure_log(log)

    assert log.facts.global_batch == batch
    assert result.value == (None if batch is None else pytest.approx(256))
    assert result.needs == (() if batch else ("--gpus", "--batch"))


def test_a_coarse_clock_is_refused_with_the_time_that_is_needed() -> None:
    lines = "".join(f"0:00:{at // 3:02} step {at} now\n" for at in range(100))
    log = _read(lines, "{elapsed} step {step} now")

    (problem,) = [problem for problem in measure_log(log).problems if problem.code == "coarse-clock"]

    assert "resolution of 1 s, and a number needs 40 s of them" in problem.message


def test_a_clock_that_gives_the_number_within_5_percent_is_used_with_a_note() -> None:
    lines = "".join(f"0:{at // 80:02}:{at * 3 // 4 % 60:02} step {at} now\n" for at in range(101))

    result = measure_log(_read(lines, "{elapsed} step {step} now"))

    (problem,) = [problem for problem in result.problems if problem.code == "coarse-clock"]
    assert problem.severity is Severity.NOTE
    assert "wrong by 3.3%" in problem.message
    assert result.value is not None
