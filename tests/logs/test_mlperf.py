"""Dialects of MLPerf's result logs: what counts mean, which way to the number is preferred, and when ways disagree."""

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest_logs import Event, Reader, doubts_of, mlperf_log, sound

from corpora import CORPUS_2026, truth_of
from trainmark.logs import Facts, Status
from trainmark.logs.model import ParsedLog
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import AuditVerdict, judge, measure_log
from trainmark.measure.rules.claims import Claim
from trainmark.programs import read_log, read_stream, synthetic_log
from trainmark.programs.log_formats.mlperf import parts
from trainmark.programs.log_formats.mlperf.dialects import DIALECTS
from trainmark.programs.log_formats.mlperf.events import last_values


def _head(benchmark: str, batch: int, samples: int) -> list[Event]:
    return [
        ("submission_benchmark", 0, benchmark, {}),
        ("global_batch_size", 0, batch, {}),
        ("train_samples", 1, samples, {}),
        ("run_start", 10, None, {}),
    ]


def _retinanet(samples: int, own: float) -> str:
    events = _head("retinanet", 256, samples)
    for epoch in range(4):
        begin = 10 + 400 * epoch
        events += [
            ("epoch_start", begin, epoch, {"epoch_num": epoch}),
            ("epoch_stop", begin + 300, epoch, {"epoch_num": epoch}),
            ("tracked_stats", begin + 300, {"throughput": own}, {"step": epoch + 1}),
        ]
    return mlperf_log(*events, ("run_stop", 1700, None, {"status": "success"}))


@pytest.mark.parametrize("samples", [4572, 1_170_301])
def test_a_count_that_is_steps_differs_from_one_of_samples_by_the_data_set(
    read: Reader, samples: int
) -> None:
    log = read(_retinanet(samples, 3900.0))

    assert measure_log(log).value == pytest.approx(1_170_301 / 300, rel=2e-3)
    assert not doubts_of(log)


def test_a_rate_of_one_device_is_no_disagreement(read: Reader) -> None:
    log = read(_retinanet(4572, 3900.0 / 8))

    own = next(one for one in measure_log(log).witnesses if "own" in one.name)
    assert own.value == pytest.approx(3900)
    assert "of one of 8 devices" in own.how
    assert not doubts_of(log)


def test_two_methods_that_disagree_are_a_doubt_that_names_both(read: Reader) -> None:
    log = read(_retinanet(4572, 3000.0))

    assert "3901" in doubts_of(log)["witnesses-disagree"]
    assert "3000" in doubts_of(log)["witnesses-disagree"]


def test_a_count_that_fits_no_data_set_gives_the_programs_own_number(read: Reader) -> None:
    assert measure_log(read(_retinanet(777, 3900.0))).value == pytest.approx(3900)


def test_the_programs_own_number_alone_is_a_doubt(read: Reader) -> None:
    lines = [
        line for line in _retinanet(4572, 3900.0).splitlines(keepends=True) if "train_samples" not in line
    ]

    assert "own-figure-only" in doubts_of(read("".join(lines)))


def test_a_log_that_lost_the_name_of_its_benchmark_is_in_doubt(read: Reader) -> None:
    lines = [
        line for line in _retinanet(4572, 3900.0).splitlines(keepends=True) if "submission_ben" not in line
    ]

    assert "benchmark-unknown" in doubts_of(read("".join(lines)))


def test_an_audit_names_the_other_way_that_gives_a_published_value(read: Reader) -> None:
    log = read(_retinanet(1_170_301, 3500.0))

    finding = judge(Claim("a.log", "3500"), log)

    assert finding.verdict is AuditVerdict.UNEXPLAINED
    assert "it is the number by the program's own throughput (the median of tracked_stats)" in finding.note
    assert judge(Claim("a.log", "3600"), log).verdict is AuditVerdict.CONTRADICTED


def test_the_only_count_of_an_unknown_benchmark_is_in_doubt(read: Reader) -> None:
    """A count may be of steps, as RetinaNet's is: what a new benchmark prints has no meaning that is known."""
    text = _retinanet(1_170_301, 3900.0)
    new = text.replace("retinanet", "newbench")
    alone = "".join(line for line in new.splitlines(keepends=True) if "tracked_stats" not in line)

    assert "the counts of the benchmark newbench is not known" in doubts_of(read(alone))["benchmark-unknown"]
    assert not doubts_of(read(new))
    assert not doubts_of(read(alone.replace("newbench", "resnet")))


def test_one_block_whose_counts_are_equal_is_no_length(read: Reader) -> None:
    log = read(_llm("llama2_70b_lora", [(800, 800)]))

    assert "blocks" not in {one.name for one in measure_log(log).witnesses}


def test_an_epoch_that_the_end_of_the_run_stops_is_left_out(read: Reader) -> None:
    lines = _retinanet(4572, 3900.0).splitlines(keepends=True)
    late = mlperf_log(("epoch_start", 1650, 4, {"epoch_num": 4}), ("epoch_stop", 1701, 4, {"epoch_num": 4}))

    log = read("".join(lines) + late)

    assert measure_log(log).value == pytest.approx(1_170_301 / 300, rel=2e-3)


def _llm(benchmark: str, counts: list[tuple[int, int]], *, stops: bool = True, step_s: float = 2.0) -> str:
    """Return a run of blocks of 100 s: the counts at their ends, and a step time of ``step_s``."""
    events = _head(benchmark, 16, 1_574_207_408)
    for number, (at_start, ended) in enumerate(counts):
        at = 10 + 110 * number
        events.append(("block_start", at, None, {"samples_count": at_start}))
        events.append(("tracked_stats", at + 99, {"train_step_time": step_s}, {"step": number}))
        if stops or number == len(counts) - 1:
            events.append(("block_stop", at + 100, None, {"samples_count": ended}))
            events.append(("eval_start", at + 100, None, {"samples_count": ended}))
        events.append(("eval_stop", at + 110, None, {"samples_count": 800 * (number + 1)}))
    return mlperf_log(*events, ("run_stop", 10 + 110 * len(counts), None, {"status": "success"}))


@pytest.mark.parametrize(
    "counts",
    [[(800 * n, 800 * n + 800) for n in range(6)], [(800, 800)] * 6, [(800 * n, 800 * n) for n in range(6)]],
    ids=["counter", "length", "counter-of-the-start"],
)
def test_samples_count_is_a_counter_or_a_length(read: Reader, counts: list[tuple[int, int]]) -> None:
    log = read(_llm("llama31_8b", counts))

    values = {one.name: one.value for one in measure_log(log).witnesses}
    assert measure_log(log).value == pytest.approx(8)
    assert values["blocks"] == pytest.approx(8)
    assert not doubts_of(log)


def test_blocks_without_a_stop_end_at_the_next_start(read: Reader) -> None:
    log = read(_llm("llama31_405b", [(800 * n, 800 * n) for n in range(6)], stops=False, step_s=2.1))

    assert measure_log(log).value == pytest.approx(4800 / 650, rel=0.01)


def test_a_first_block_with_the_warm_up_is_left_out(read: Reader) -> None:
    text = _llm("stable_diffusion", [(800 * n, 800 * n + 800) for n in range(6)])
    first = text.replace('"train_step_time": 2.0', '"train_step_time": 4.0', 1)

    assert measure_log(read(first)).value == pytest.approx(8)


def _rgat(own: float, last: float) -> str:
    events = _head("rgat", 1024, 1_000_000)
    events += [
        ("epoch_start", 10, None, {"epoch_num": 1}),
        ("epoch_stop", 110, None, {"epoch_num": 1.0}),
        ("tracked_stats", 110, {"throughput": own}, {"epoch_num": 1.0}),
        ("epoch_start", 110, None, {"epoch_num": 2}),
        ("eval_accuracy", 140, 0.72, {"epoch_num": last}),
        ("tracked_stats", 140, {"throughput": own}, {"epoch_num": last}),
        ("epoch_stop", 140, None, {"epoch_num": last}),
    ]
    return mlperf_log(*events, ("run_stop", 141, None, {"status": "success", "epoch_num": last}))


def test_a_partial_epoch_counts_by_its_fraction(read: Reader) -> None:
    log = read(_rgat(10_000.0, 1.3))

    epochs = next(one for one in measure_log(log).witnesses if one.name == "epochs")
    assert epochs.value == pytest.approx(10_000)
    assert measure_log(log).value == pytest.approx(10_000)
    assert "witnesses-disagree" not in doubts_of(log)


def test_an_epoch_without_its_stop_is_reported(read: Reader) -> None:
    lines = [
        line for line in _rgat(10_000.0, 1.3).splitlines(keepends=True) if '"epoch_num": 1.0}' not in line
    ]

    assert "events-unpaired" in {problem.code for problem in read("".join(lines)).problems}


@pytest.mark.parametrize("place", ["before", "after"])
def test_another_programs_run_before_or_after_the_harness_is_another_log(place: str) -> None:
    other = synthetic_log("timm", SampleRun([0.5] * 60))
    harness = synthetic_log("mlperf", SampleRun([0.5] * 60))
    text = other + harness if place == "before" else harness + other

    log = read_stream(io.BytesIO(text.encode()))

    assert "several-formats" in doubts_of(log)


def test_a_harness_after_many_lines_of_a_stream_that_is_read_once_gives_the_number() -> None:
    lines = synthetic_log("megatron-lm", SampleRun([0.5] * 4000)).encode().splitlines(keepends=True)
    harness = synthetic_log("mlperf", SampleRun([0.5] * 60)).encode()
    packed = gzip.compress(b"".join((*lines[:-1], harness, lines[-1])))
    assert len(b"".join(lines)) > 1 << 20

    log = read_stream(io.BytesIO(packed))

    assert log.format == "mlperf"
    assert measure_log(log).value == measure_log(read_stream(io.BytesIO(harness))).value


def test_a_harness_among_a_programs_lines_gives_the_number(tmp_path: Path) -> None:
    own = "".join(f"Iter: {n} Time(100 iters): 0.2s Loss: 0.1 lr:0.001000\n" for n in range(100, 90_000, 100))
    path = tmp_path / "dlrm.log"
    path.write_text(own + _rgat(10_000.0, 1.3) + own)

    log = read_log(path, Facts())

    assert log.format == "mlperf"
    assert measure_log(log).value == pytest.approx(10_000)
    assert "several-formats" not in doubts_of(log)


@pytest.mark.parametrize(("own", "doubts"), [(11_900.0, set()), (95_200.0, {"witnesses-disagree"})])
def test_berts_own_throughput_is_compared_with_the_whole_run(
    read: Reader, own: float, doubts: set[str]
) -> None:
    events = [event for event in _head("bert", 896, 0) if event[0] != "train_samples"]
    events += [("epoch_start", 10, None, {"epoch_num": 0})]
    events += [("tracked_stats", 22 + 12 * n, {"throughput": own}, {"epoch_num": n}) for n in range(15)]
    events += [("epoch_stop", 210, None, {"epoch_num": 2_380_000})]
    events += [("run_stop", 210, None, {"status": "success"}), ("train_samples", 210, 2_380_000, {})]
    assert set(doubts_of(read(mlperf_log(*events)))) == doubts


def test_stamps_in_seconds_are_a_doubt(read: Reader) -> None:
    text = re.sub(
        r'"time_ms": (\d+)', lambda match: f'"time_ms": {int(match[1]) // 1000}', _retinanet(4572, 3900.0)
    )

    doubts = doubts_of(read(text))
    assert "1000 times too high" in doubts["clock-in-seconds"]
    assert "clock-in-seconds" not in doubts_of(read(_retinanet(4572, 3900.0)))


def test_every_dialect_prefers_methods_that_exist() -> None:
    from trainmark.programs.log_formats.mlperf.methods import _METHODS

    for name, dialect in DIALECTS.items():
        assert set(dialect.prefers) <= set(_METHODS), name


@pytest.mark.parametrize(
    "truth", truth_of(CORPUS_2026, lambda row: row["log"], lambda row: row["log"].startswith("ml5_"))
)
def test_result_logs_of_version_5_give_the_right_number(truth: dict[str, str]) -> None:
    log = read_log(CORPUS_2026 / "logs" / truth["log"])

    assert float(truth["low"]) <= float(measure_log(log).value or 0) <= float(truth["high"])


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("16_mlperf_retinanet_iterations", 3993, 4086),
        ("17_mlperf_block_length", 45.3, 46.4),
        ("18_mlperf_rgat_partial_epoch", 1_969_000, 2_253_050),
        ("19_mlperf_405b_blocks_without_stop", 22.2, 23.6),
        ("20_mlperf_rgat_half_epoch", 322_000, 335_000),
    ],
)
@pytest.mark.skipif(
    not CORPUS_2026.is_dir(), reason="the corpus of real logs (../shared/corpus-2026) is not here"
)
def test_field_cases_of_mlperf_give_the_right_number(name: str, low: float, high: float) -> None:
    assert low <= float(measure_log(read_log(CORPUS_2026 / "cases" / f"{name}.log")).value or 0) <= high


def test_the_last_value_of_a_key_is_its_parameter_and_a_damaged_line_is_left_out() -> None:
    text = (
        b':::MLLOG {"key": "seed", "time_ms": 1, "value": 1}\n'
        b':::MLLOG {"key": "global_batch_size", "time_ms": 2, "value": 512}\n'
        b':::MLLOG {"metadata": {"key": "seed"}, "key": "opt_name", "time_ms": 2, "value": "sgd"}\n'
        b':::MLLOG {"key": "seed", "time_ms": 3, "value": 7}\n'
        b':::MLLOG {"key": "global_batch_size", "time_ms": 2, "value": 5\n'
    )

    assert last_values(text) == {"global_batch_size": "512", "opt_name": "sgd", "seed": "7"}


def test_a_harness_without_a_count_leaves_the_number_to_the_program() -> None:
    """HugeCTR's DLRM in MLPerf's harness: the events time an evaluation only, and the program times its steps."""
    events = [
        _json_line("submission_benchmark", "dlrm"),
        _json_line("run_start", None),
    ]
    lines = [
        f"[HCTR][12:00:{at:02}][INFO][RK0][main]: Iter: {at * 1000} Time(1000 iters): 1.75s Loss: 0.124 lr:24.0"
        for at in range(1, 41)
    ]
    text = "\n".join([*events, *lines, _json_line("run_stop", None)]) + "\n"

    log = read_stream(io.BytesIO(text.encode()), given=Facts(gpus=8, batch_per_device=6912))

    assert (log.format, log.records.count) == ("hugectr", 40)
    assert measure_log(log).value == pytest.approx(55296 * 1000 / 1.75)


def _json_line(key: str, value: object) -> str:
    return ":::MLLOG " + json.dumps({"time_ms": 1690527000000, "key": key, "value": value, "metadata": {}})


def _epochs_of(
    benchmark: str, samples: int, *, numbered: bool = True, ranks: int = 1, last: float = 200.0
) -> str:
    """Return a run of 200 epochs of about 10 s, each start and stop printed by so many ranks."""
    events = _head(benchmark, 256, samples)
    for number in range(200):
        about = {"epoch_num": number + 1} if numbered else {}
        begin, end = 10 + 11 * number, 20 + 11 * number + number % 7 / 10
        events += [("epoch_start", begin + 0.001 * rank, None, about) for rank in range(ranks)]
        events += [("tracked_stats", end, {"throughput": samples / 10.3}, about)]
        reached = {"epoch_num": last if number == 199 else number + 0.5}
        events += [("eval_accuracy", end, 0.5, reached)] if numbered else []
        events += [("epoch_stop", end + 0.001 * rank, None, about) for rank in range(ranks)]
    return mlperf_log(*events, ("run_stop", 2300, None, {"status": "success"}))


def _steps_of(first_only: bool) -> str:
    """Return a run of 200 blocks of 100 steps, whose step is printed at the start, and maybe at the stop."""
    events = _head("gpt3", 16, 1_574_207_408)
    for number in range(200):
        begin, end = 10 + 110 * number, 110 + 110 * number
        events.append(("block_start", begin, None, {"first_epoch_num": number, "step_num": 100 * number}))
        reached = {} if first_only else {"step_num": 100 * number + 100}
        events.append(("block_stop", end + number % 3, None, {"first_epoch_num": number, **reached}))
    return mlperf_log(*events, ("run_stop", 30_000, None, {"status": "success"}))


_LONG_RUNS = {
    "epochs": _epochs_of("resnet", 100_000),
    "epochs without numbers": _epochs_of("resnet", 100_000, numbered=False),
    "several ranks": _epochs_of("resnet", 100_000, ranks=4),
    "a last part of an epoch": _epochs_of("dlrm", 100_000, last=199.25),
    "own throughput": _epochs_of("rgat", 100_000),
    "steps": _steps_of(first_only=False),
    "steps at the start only": _steps_of(first_only=True),
    "counter": _llm("flux1", [(800 * n, 800 * n + 800) for n in range(200)]),
    "counter of the start": _llm("flux1", [(800 * n, 800 * n) for n in range(200)]),
    "length": _llm("llama31_8b", [(800, 800)] * 200),
    "warm-up": _llm("stable_diffusion", [(800 * n, 800 * n + 800) for n in range(200)]).replace(
        '"train_step_time": 2.0', '"train_step_time": 4.0', 1
    ),
}


def _by_parts(monkeypatch: pytest.MonkeyPatch, read: Reader, text: str) -> tuple[ParsedLog, ParsedLog, bool]:
    """Return the log read whole, the log read in parts of few events, and whether the parts gave the records."""
    whole, gave, of_parts = read(text), [], parts.assemble_parts

    def observed(columns: Any) -> Any:
        found = of_parts(columns)
        gave.append(found is not None)
        return found

    monkeypatch.setattr(parts, "LONG_EVENTS", 64)
    monkeypatch.setattr(parts, "PART_EVENTS", 40)
    monkeypatch.setattr(parts, "assemble_parts", observed)
    return whole, read(text), gave == [True]


def _same_records(one: ParsedLog, other: ParsedLog) -> bool:
    columns = [
        (getattr(one.records, name), getattr(other.records, name)) for name in ("step", "rate", "samples")
    ]
    return one.records.count == other.records.count and all(
        first is second is None or np.array_equal(first.array(), second.array()) for first, second in columns
    )


@pytest.mark.parametrize("text", _LONG_RUNS.values(), ids=_LONG_RUNS.keys())
def test_a_long_run_read_in_parts_has_the_records_of_all_its_events(
    monkeypatch: pytest.MonkeyPatch, read: Reader, text: str
) -> None:
    whole, by_parts, in_parts = _by_parts(monkeypatch, read, text)

    assert in_parts
    assert whole.records.count >= 199
    assert _same_records(whole, by_parts)
    assert measure_log(whole).value == pytest.approx(measure_log(by_parts).value, rel=1e-12)
    assert [(one.name, one.how) for one in whole.witnesses] == [
        (one.name, one.how) for one in by_parts.witnesses
    ]
    for one, other in zip(whole.witnesses, by_parts.witnesses, strict=True):
        assert one.value == pytest.approx(other.value)


def _swapped(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:300], *lines[400:500], *lines[300:400], *lines[500:]])


@pytest.mark.parametrize(
    "text",
    [
        _swapped(_epochs_of("resnet", 100_000)),
        _llm("llama31_405b", [(800 * n, 800 * n) for n in range(200)], stops=False),
        _epochs_of("resnet", 100_000).replace('"epoch_stop"', '"epoch_end"', 1),
    ],
    ids=["out of order", "blocks without a stop", "an open epoch"],
)
def test_a_long_run_without_places_to_cut_is_read_whole(
    monkeypatch: pytest.MonkeyPatch, read: Reader, text: str
) -> None:
    whole, again, in_parts = _by_parts(monkeypatch, read, text)

    assert not in_parts
    assert whole.records.count > 0
    assert _same_records(whole, again)


_BLOCKS = [
    ("run_start", 100, None, {}),
    ("block_start", 100, None, {"first_epoch_num": 0, "epoch_count": 1}),
    ("block_stop", 190, None, {"first_epoch_num": 0}),
    ("block_start", 200, None, {"first_epoch_num": 1, "epoch_count": 1}),
    ("block_stop", 290, None, {"first_epoch_num": 1}),
    ("run_stop", 300, None, {"status": "success"}),
]


@pytest.mark.parametrize(
    ("events", "value"),
    [
        ([("train_samples", 50, 9000, {}), *_BLOCKS], 100.0),
        ([*_BLOCKS[:5], ("train_samples", 295, 20000, {}), _BLOCKS[5]], 100.0),
        ([("submission_benchmark", 1, "maskrcnn", {}), ("train_samples", 50, 9000, {}), *_BLOCKS], None),
        (_BLOCKS, None),
        (
            [
                ("block_start", 100, None, {"samples_count": 0}),
                ("block_stop", 190, None, {}),
                ("block_start", 200, None, {"samples_count": 900}),
                ("block_stop", 290, None, {}),
                ("run_stop", 300, None, {"status": "success", "samples_count": 1800}),
            ],
            10.0,
        ),
    ],
    ids=["of-an-epoch", "of-the-run", "iterations", "none", "counted"],
)
def test_mlperf_counts_what_the_benchmark_counts(
    read: Reader, events: list[Any], value: float | None
) -> None:
    assert measure_log(read(mlperf_log(*events))).value == (pytest.approx(value) if value else None)


def _run_of(
    benchmark: str, samples: int, *blocks: tuple[dict[str, Any], dict[str, Any]], pause: int = 0
) -> Any:
    """Return the events of a run of ``blocks`` (what their start and their stop say) of 100 s each."""
    step = 100 + pause
    head: list[Any] = [
        ("submission_benchmark", 0, benchmark, {}),
        ("global_batch_size", 0, 64, {}),
        ("train_samples", 5, samples, {}),
    ]
    inner = [
        event
        for n, (start, stop) in enumerate(blocks)
        for event in (
            ("block_start", 100 + n * step, None, start),
            ("block_stop", 200 + n * step, None, stop),
        )
    ]
    end = ("run_stop", 100 + len(blocks) * step, None, {"status": "success"})
    return [*head, ("run_start", 100, None, {}), *inner, end]


_PART = {"first_epoch_num": 0, "epoch_count": 1}


@pytest.mark.parametrize(
    "blocks",
    [
        [({"step_num": 50 * n}, {"step_num": 50 * n}) for n in range(9)],
        [({**_PART, "step_num": 50 * n}, {"first_epoch_num": 0, "step_num": 50 * n + 50}) for n in range(9)],
        [({"first_step_num": 50 * n + 1}, {"first_step_num": 50 * n + 1, "step_count": 50}) for n in range(9)],
        [({**_PART, "step_num": 50 * n}, {"first_epoch_num": 0, "step_count": 50}) for n in range(9)],
    ],
    ids=["steps", "parts-of-an-epoch", "step-counts", "one-epochs-parts"],
)  # fmt: skip
def test_blocks_of_steps_count_batches_and_not_data_sets(read: Reader, blocks: list[Any]) -> None:
    log = read(mlperf_log(*_run_of("stable_diffusion", 6_513_144, *blocks)))

    assert sound(log) == pytest.approx(50 * 64 / 100)


def test_an_epoch_count_that_counts_sequences_makes_no_number(read: Reader) -> None:
    blocks = [
        ({"first_epoch_num": n * 24576, "epoch_count": 24576}, {"first_epoch_num": n * 24576})
        for n in range(9)
    ]

    assert measure_log(read(mlperf_log(*_run_of("gpt3", 1_574_207_408, *blocks)))).value is None


@pytest.mark.parametrize(("benchmark", "number"), [("bert", False), ("dlrm_dcnv2", True)])
def test_a_single_epoch_cut_by_the_end_of_the_run_is_a_doubt(
    read: Reader, benchmark: str, number: bool
) -> None:
    log = read(
        mlperf_log(
            *_run_of(benchmark, 2_000_000, ({"first_epoch_num": 1, "epoch_count": 1}, {"first_epoch_num": 1}))
        )
    )

    assert (measure_log(log).value is not None) is number
    assert "epoch-unfinished" in doubts_of(log)


def test_samples_printed_in_the_first_of_many_epochs_count_for_each(read: Reader) -> None:
    blocks = [({"first_epoch_num": n, "epoch_count": 1}, {"first_epoch_num": n}) for n in range(1, 10)]
    head, *events = _run_of("resnet", 1_281_167, *blocks)
    late = sorted((head, *events), key=lambda event: (event[1], event[0] != "block_stop"))
    moved = [(key, 101 if key == "train_samples" else at, value, about) for key, at, value, about in late]

    assert sound(read(mlperf_log(*moved))) == pytest.approx(12_811.67)


def test_evaluation_between_blocks_is_not_in_their_time(read: Reader) -> None:
    blocks = [({"samples_count": n * 384}, {"samples_count": n * 384 + 384}) for n in range(9)]

    assert sound(read(mlperf_log(*_run_of("llama2_70b_lora", 3901, *blocks, pause=30)))) == pytest.approx(
        3.84
    )


def test_two_results_of_one_benchmark_in_a_file_are_two_runs(read: Reader) -> None:
    run = _run_of(
        "resnet",
        1_281_167,
        *[({"first_epoch_num": n, "epoch_count": 1}, {"first_epoch_num": n}) for n in range(9)],
    )
    slower = [(key, 10_000 + 2 * at, value, about) for key, at, value, about in run]

    log = read(mlperf_log(*run, *slower))

    assert (log.status, measure_log(log).value) == (Status.INVALID, None)
    assert "several-runs" in doubts_of(log)
