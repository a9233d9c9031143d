"""Each is a real failure of scripts in use: here it gets the right number, or a clear status and its reason."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest_logs import Reader, rates, sample

from trainmark.errors import InputError
from trainmark.logs import Facts, ParsedLog, Severity, Status, find_logs
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import read_log, samples, synthetic_log
from trainmark.schema.precision import Precision


def _codes(log: ParsedLog) -> set[str]:
    return {problem.code for problem in log.problems}


def _doubts(log: ParsedLog) -> set[str]:
    return {problem.code for problem in log.problems if problem.severity is Severity.DOUBT}


def _mapped_rates(text: str, change: Callable[[int, float], str]) -> str:
    """Change the printed total_ips of each record: ``change(number_of_record, rate) -> word``."""
    count = iter(range(1 << 30))
    return re.sub(
        r"(?<=Iteration: )(\d+)(.*train\.total_ips : )(\S+)",
        lambda m: f"{m[1]}{m[2]}{change(next(count), float(m[3]))}",
        text,
    )


@pytest.mark.parametrize(
    "message",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 98.00 MiB",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor",
        "mxnet.base.MXNetError: cudaMalloc failed: out of memory",
        "Out of memory error on GPU 0. Cannot allocate 98.0MB memory on GPU 0",
        "slurmstepd: error: Detected 1 oom-kill event(s)",
    ],
)
def test_out_of_memory_is_an_outcome_and_not_a_number(read: Reader, message: str) -> None:
    records = sample("ngc-pytorch-convnets").splitlines()[:40]

    log = read("\n".join([*records, "Traceback (most recent call last):", message, ""]))

    assert log.status is Status.OOM
    assert measure_log(log).value is None
    assert "out-of-memory" in _codes(log)


def test_a_harmless_allocator_warning_is_not_a_failure(read: Reader) -> None:
    warning = "Allocator ran out of memory trying to allocate 2.2GiB. The caller indicates that this is not a failure"

    log = read(warning + "\n" + sample("ngc-tensorflow-convnets"))

    assert log.status is Status.OK


def test_a_crash_is_a_failure_with_its_reason(read: Reader) -> None:
    records = sample("ngc-pytorch-convnets").splitlines()[:40]

    log = read(
        "\n".join([*records, "Traceback (most recent call last):", "  File x", "ValueError: bad label", ""])
    )

    assert log.status is Status.FAILED
    assert any("ValueError: bad label" in problem.message for problem in log.problems)


def test_warm_up_longer_than_the_run_gives_no_number(read: Reader) -> None:
    log = read(sample("ngc-pytorch-convnets", steps=50))

    result = measure_log(log, find_rule("mean", 50))

    assert (result.value, result.status) == (None, Status.INCOMPLETE)
    assert "skips the first" in result.problems[0].message


def test_a_log_that_ends_in_its_warm_up_gives_its_steady_records_with_a_note(read: Reader) -> None:
    text = "\n".join(sample("ngc-pytorch-convnets").splitlines()[:16]) + "\n"

    result = measure_log(read(text))

    assert result.value == pytest.approx(1024)
    assert {problem.code: problem.severity for problem in result.problems} == {"short-log": Severity.NOTE}


def test_a_log_of_one_record_gives_no_number(read: Reader) -> None:
    records = [line for line in sample("ngc-pytorch-convnets").splitlines() if "Iteration" in line]

    result = measure_log(read(records[0] + "\n"))

    assert (result.value, result.status) == (None, Status.INCOMPLETE)


def test_eight_ranks_that_print_untagged_are_read_once(read: Reader) -> None:
    one = sample("ngc-pytorch-convnets")
    eight = "".join((line + "\n") * (8 if "Iteration" in line else 1) for line in one.splitlines())

    log = read(eight)

    assert rates(log) == rates(read(one))
    assert "ranks-untagged" in _codes(log)
    assert measure_log(log).value == measure_log(read(one)).value


def test_rank_zero_alone_prints_a_rate_per_device_that_is_scaled(read: Reader) -> None:
    log = read(sample("paddleseg", steps=200, seconds=0.5, gpus=8))

    assert measure_log(log).value == pytest.approx(8 * 64 / 0.5, rel=1e-4)


def test_a_rate_of_all_devices_is_not_multiplied_again(read: Reader) -> None:
    log = read(sample("ngc-pytorch-convnets", seconds=0.5, gpus=8))

    assert measure_log(log).value == pytest.approx(8 * 64 / 0.5)


def test_a_rate_of_one_device_without_their_number_is_no_throughput(read: Reader) -> None:
    text = "\n".join(
        line for line in sample("paddlenlp-bert").splitlines() if "paddle.distributed" not in line
    )

    silent, given = read(text), read(text, given=Facts(gpus=8))

    assert measure_log(silent).status is Status.INCOMPLETE
    assert "--gpus" in measure_log(silent).problems[0].message
    assert measure_log(given).value == pytest.approx(8 * 64 / 0.5, rel=1e-4)


def test_a_loss_that_is_not_a_number_makes_the_run_suspect(read: Reader) -> None:
    text = sample("ngc-pytorch-convnets").replace("train.loss : 6.91234 None", "train.loss : nan None")

    log = read(text)

    assert log.status is Status.OK
    assert "loss-not-finite" in _doubts(log)


@pytest.mark.parametrize("word", ["nan", "inf", "-1.0", "0.00", "None"])
def test_a_rate_that_is_not_positive_is_left_out_and_reported(read: Reader, word: str) -> None:
    text = _mapped_rates(sample("ngc-pytorch-convnets"), lambda i, rate: word if i == 60 else f"{rate:.2f}")

    result = measure_log(read(text))

    assert result.value == pytest.approx(1024)
    assert "rate-not-finite" in {problem.code for problem in result.problems}


def test_slow_steps_count_by_their_time_and_not_as_one_rate_among_many(read: Reader) -> None:
    times = [0.5] * 100 + [5.0] * 10
    log = read(synthetic_log("ngc-pytorch-convnets", SampleRun(times, gpus=8, batch_per_device=64)))

    window, mean = measure_log(log), measure_log(log, find_rule("mean", 20))

    assert window.value == pytest.approx(8 * 64 * 90 / (80 * 0.5 + 10 * 5.0), rel=1e-4)
    assert mean.value == pytest.approx((80 * 1024 + 10 * 102.4) / 90, rel=1e-4)
    assert "uneven-steps" in {problem.code for problem in window.problems}


def test_a_truncated_log_is_reported_as_incomplete(read: Reader) -> None:
    text = "\n".join(sample("ngc-pytorch-convnets").splitlines()[:80]) + "\n"

    log = read(text)

    assert measure_log(log).value == pytest.approx(1024)
    assert "incomplete" in _codes(log)
    assert "incomplete" not in _doubts(log)


def test_a_missing_start_of_a_log_is_reported(read: Reader) -> None:
    text = "\n".join(sample("ngc-pytorch-convnets").splitlines()[60:]) + "\n"

    assert "incomplete" in _codes(read(text))


def test_steps_longer_than_ten_seconds_keep_all_their_digits(read: Reader) -> None:
    text = synthetic_log("mmsegmentation", SampleRun([123.456] * 20, gpus=8, batch_per_device=4, interval=2))

    log = read(text)

    assert {record.step_time_s for record in log.records.rows()} == {123.456}
    assert measure_log(log).value == pytest.approx(32 / 123.456)


@pytest.mark.parametrize("format_name", ["ngc-pytorch-bert", "ngc-tensorflow-convnets", "paddleclas"])
def test_a_run_over_midnight_and_new_year_is_measured_right(read: Reader, format_name: str) -> None:
    run = SampleRun(
        [2.0] * 200, gpus=8, batch_per_device=64, interval=2, start=datetime(2023, 12, 31, 23, 57, tzinfo=UTC)
    )

    log = read(synthetic_log(format_name, run))

    assert measure_log(log).value == pytest.approx(run.global_batch / 2.0, rel=0.01)


def test_less_than_one_sample_a_second_is_a_valid_rate(read: Reader) -> None:
    text = sample("paddleseg", steps=200)

    log = read(re.sub(r"ips: \S+", "ips: 0.727", text))

    assert measure_log(log).value == pytest.approx(8 * 0.727)


@pytest.mark.parametrize("written", ["ips:393,", "ips: 393.0,", "ips:393.0 samples/sec"])
def test_a_rate_without_blanks_is_read(read: Reader, written: str) -> None:
    line = f"[2023/07/28 06:51:13] ppcls INFO: epoch:0   train step:790  lr: 0.1, batch_cost: 0.65067 s, {written}\n"

    assert rates(read(line)) == [393.0]


def test_a_list_of_addresses_called_ips_is_no_rate(read: Reader) -> None:
    text = sample("paddleclas")
    assert "ips: None" in text

    assert all(rate is not None and rate > 0 for rate in rates(read(text)))


@pytest.mark.parametrize(
    "format_name", ["fairseq", "timm", "pytorch-imagenet", "oneflow", "ngc-tensorflow-bert"]
)
def test_a_rate_of_the_evaluation_is_not_read(read: Reader, format_name: str) -> None:
    text = sample(format_name, steps=120)

    log = read(text, given=Facts(gpus=8, batch_per_device=64))

    assert re.search(r"Test: |Translated|validation|Throughput Average", text)
    assert measure_log(log).value == pytest.approx(1024, rel=1e-3)


def test_evaluation_lines_of_paddle_are_not_read(read: Reader) -> None:
    seg = "2023-07-27 12:59:09 [INFO]\t[EVAL] #Images: 500 batch_cost: 0.5, reader_cost: 0.1, ips: 99.9 samples/sec\n"
    clas = "[2022/01/02 03:04:05] ppcls INFO: [Eval][Epoch 1][Iter: 0/50]batch_cost: 3.1s, ips: 99.9 images/sec\n"

    assert 99.9 not in rates(read(sample("paddleseg", steps=200) + seg))
    assert 99.9 not in rates(read(sample("paddleclas", steps=200) + clas))


def test_a_summary_that_omits_skipped_steps_is_reported(read: Reader) -> None:
    text = re.sub(r"(-  throughput_train : )\S+", r"\g<1>870.5", sample("ngc-tensorflow-bert"))

    log = read(text)
    result = measure_log(log)

    assert log.figures["summary"] == 870.5
    assert result.value == pytest.approx(1024, rel=1e-4)
    assert "summary-differs" in {problem.code for problem in result.problems}


def test_a_step_of_several_micro_batches_counts_all_their_samples(read: Reader) -> None:
    log = read(sample("ngc-pytorch-bert", steps=100, seconds=2.0))

    assert (log.facts.batch_per_device, log.facts.accumulation) == (16, 4)
    assert measure_log(log).value == pytest.approx(8 * 16 * 4 / 2.0)


def test_unknown_accumulation_gives_no_window_by_the_clock(read: Reader) -> None:
    text = "\n".join(line for line in sample("ngc-pytorch-bert").splitlines() if "PARAMETER" not in line)
    log = read(text, "bert_fp32_bs16_gpu8.log")

    result = measure_log(log)

    assert result.rule == "summary"


def test_a_counter_that_repeats_for_loss_scaling_counts_its_steps(read: Reader) -> None:
    text = sample("ngc-pytorch-bert", steps=100, seconds=2.0)
    skipping = re.sub(r"(?<=Training Iteration: )\d+", lambda m: str(max(int(m[0]) - 8, 1)), text)

    log = read(skipping)

    assert log.status is Status.OK
    assert "counter-repeats" in _codes(log)
    assert measure_log(log).value == pytest.approx(8 * 64 / 2.0)


def test_a_decreasing_counter_is_reported(read: Reader) -> None:
    lines = sample("ngc-pytorch-convnets").splitlines()
    lines[50], lines[54] = lines[54], lines[50]

    log = read("\n".join(lines) + "\n")

    assert log.status is Status.OK
    assert "counter-backwards" in _doubts(log)


@pytest.mark.parametrize(
    "format_name", ["ngc-pytorch-convnets", "paddlenlp-bert", "gluoncv", "mmsegmentation"]
)
def test_two_runs_in_one_file_are_not_one_number(read: Reader, format_name: str) -> None:
    log = read(sample(format_name) + sample(format_name, seconds=0.7), given=None)

    assert log.status is Status.INVALID
    assert "several-runs" in _codes(log)


@pytest.mark.parametrize("first_lines", [6, 20, 60])
def test_a_run_restarted_into_its_log_after_an_early_crash_gives_no_number(
    read: Reader, first_lines: int
) -> None:
    died = "".join(sample("ngc-pytorch-convnets").splitlines(keepends=True)[:first_lines])

    log = read(died + sample("ngc-pytorch-convnets", seconds=0.7))

    assert log.status is Status.INVALID
    assert "several-runs" in _codes(log)


def test_runs_of_two_programs_in_one_file_are_reported(read: Reader) -> None:
    log = read(sample("ngc-pytorch-convnets") + sample("paddleseg", steps=200))

    assert "several-formats" in _doubts(log)


def test_a_log_of_one_program_has_records_of_one_format(read: Reader) -> None:
    for name in samples():
        assert "several-formats" not in _codes(read(sample(name)))


def test_a_crash_in_a_log_without_records_is_reported_before_the_unknown_format(read: Reader) -> None:
    log = read("Traceback (most recent call last):\nResourceExhaustedError: OOM when allocating tensor\n")

    assert [problem.code for problem in log.problems] == ["out-of-memory", "unknown-format"]


def test_an_empty_file_has_the_status_empty(read: Reader) -> None:
    assert read(b"").status is Status.EMPTY


@pytest.mark.parametrize("data", [bytes(range(256)) * 64, b"\x7fELF" + b"\0" * 500, b"PK\x03\x04 zip"])
def test_a_binary_is_unreadable(read: Reader, data: bytes) -> None:
    assert read(data).status is Status.UNREADABLE


def test_one_nul_byte_does_not_make_a_log_a_binary(read: Reader) -> None:
    assert read("W0731 WARNING: device: \0. The installed\n" + sample("paddlenlp-bert")).status is Status.OK


def test_text_of_no_known_format_is_unknown(read: Reader) -> None:
    assert read("hello\nworld\n").status is Status.UNKNOWN


def test_log_text_is_never_evaluated(read: Reader, tmp_path: Path) -> None:
    trap = f"__import__('pathlib').Path('{tmp_path}/trap').touch()"
    text = sample("fairseq").replace("max_tokens=64", f"max_tokens={trap}")

    read(text)

    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize(
    ("given", "code"),
    [(Facts(gpus=4), "flag-contradicts-log"), (Facts(batch_per_device=32), "flag-contradicts-log")],
)
def test_a_flag_that_contradicts_the_log_is_a_problem_and_not_a_choice(
    read: Reader, given: Facts, code: str
) -> None:
    log = read(sample("mmsegmentation"), given=given)

    assert code in _doubts(log)
    assert (log.facts.gpus, log.facts.batch_per_device) == (8, 64)
    assert measure_log(log).status is Status.INVALID


def test_a_name_that_contradicts_the_log_is_reported_and_the_log_wins(read: Reader) -> None:
    log = read(sample("ngc-pytorch-convnets"), "pytorch_gpu1_amp_bs256.txt")

    assert log.facts.gpus == 8
    assert [p.code for p in log.problems] == ["name-contradicts-log"] * 3 + ["tf32-unknown"]


def test_an_unreadable_folder_is_reported_and_the_walk_continues(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "a.log").write_text("x")
    (tmp_path / "open.log").write_text(sample("timm"))
    (tmp_path / "secret.log").write_text("x")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "secret.log").chmod(0)
    tmp_path.chmod(0o755)
    program = (
        "import json, os, sys\n"
        "from trainmark.logs import find_logs\n"
        "from trainmark.programs import read_log\n"  # what it needs is imported before the user changes
        "read_log(sys.argv[1] + '/open.log')\n"
        "if os.getuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "os.chdir(sys.argv[1])\n"
        "for found in find_logs(['.']):\n"
        "    print(json.dumps([found.path, found.error or read_log(found.path).status]))\n"
    )
    # All folders of pytest's own, of which there are more where tests run side by side.
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o055)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )
    finally:
        (tmp_path / "closed").chmod(0o755)

    assert done.returncode == 0, done.stderr
    assert '["open.log", "incomplete"]' in done.stdout or '["open.log", "ok"]' in done.stdout
    assert "closed" in done.stdout
    assert "Permission denied" in done.stdout
    assert '["secret.log", "unreadable"]' in done.stdout


def test_a_path_that_does_not_exist_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find_logs([str(tmp_path / "nothing")])


def test_a_folder_of_10_000_files_is_walked_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    first = tmp_path / "0" / "a.log"
    first.write_text(sample("timm", steps=3))
    for folder in range(10):
        place = tmp_path / f"{folder:03d}"
        place.mkdir()
        for number in range(1000):
            os.link(first, place / f"{number}.log")

    walk = find_logs([str(tmp_path)])

    assert read_log(next(walk).path).format == "timm"
    assert sum(1 for _ in walk) == 10_000


def _events(*, loss: object = 6.9, last: dict[str, object]) -> str:
    parameters = {
        "schema": "trainmark.events/1",
        "framework": "pytorch",
        "precision": "fp32",
        "device_name": "NVIDIA H200",
        "world_size": 1,
        "batch_per_device": 256,
        "global_batch": 256,
        "actual": {"tf32_matmul": False},
    }
    lost: dict[str, object] = {} if loss is not None else {"loss_finite": False}
    steps = [
        {"step": [0, i], "data": {"phase": "measured", "step_time_s": 0.25, "loss": loss} | lost}
        for i in range(40)
    ]
    events = [{"step": "PARAMETER", "data": parameters}, *steps, {"step": [], "data": last}]
    return "".join(f"DLLL {json.dumps(event)}\n" for event in events)


_ENDED = {"outcome": "ok", "throughput": 1024.0, "window_s": 10.0, "samples": 10240, "suspect": []}


def test_trainmarks_events_report_whether_tf32_was_on(read: Reader) -> None:
    log = read(_events(last=_ENDED))

    assert (log.facts.precision, log.problems) == (Precision.FP32, ())
    assert measure_log(log).value == pytest.approx(1024)


@pytest.mark.parametrize(("outcome", "status"), [("oom", Status.OOM), ("failed", Status.FAILED)])
def test_a_failed_outcome_in_trainmarks_events_gives_no_number(
    read: Reader, outcome: str, status: Status
) -> None:
    log = read(_events(last={"outcome": outcome, "reason": "no more", "rank": 0}))

    assert (log.status, measure_log(log).value) == (status, None)


def test_suspicions_in_trainmarks_events_are_reported(read: Reader) -> None:
    suspect = [{"code": "ranks-disagree", "sentence": "The ranks hold different parameters."}]

    assert "ranks-disagree" in _doubts(read(_events(last=_ENDED | {"suspect": suspect})))
    assert "loss-not-finite" in _doubts(read(_events(loss=None, last=_ENDED)))
