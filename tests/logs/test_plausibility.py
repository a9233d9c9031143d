"""Physics before belief: what cannot be is a doubt that says what it does to the number, and sound logs have none."""

import importlib.util
import random
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from corpora import CORPUS, CORPUS_TODAY
from trainmark.logs import Facts, Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import read_log, synthetic_log

_ROOT = Path(__file__).parents[2]
_CORPORA = [CORPUS, CORPUS_TODAY]
_WITHOUT_CORPORA = pytest.mark.skipif(
    not all(folder.is_dir() for folder in _CORPORA),
    reason="the corpora of real logs (../shared) are not here",
)
_TIMES = [0.5 + 0.005 * ((7 * i) % 11) for i in range(400)]
_REASONED = {"incomplete", "one-node-of-many", "unknown-format", "no-records", "only-warm-up", "few-records"}
"""Doubts that are true of excerpts and of one node's log, whatever their records are."""
_STALLED = {"lambda_resnet50_fp16_8xA100.txt": {"stall"}}
"""A log in which one record does hold 18 % of the window."""


def _mutations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("log_mutations", _ROOT / "benchmarks" / "log_mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["log_mutations"] = module
    spec.loader.exec_module(module)
    return module


def _read(tmp_path: Path, text: str, name: str = "run.txt") -> tuple[float | None, dict[str, str]]:
    """Return the number and the doubts, by code, of a log of 8 devices with batch 64."""
    path = tmp_path / name
    path.write_text(text)
    log = read_log(path, Facts(gpus=8))
    result = measure_log(log)
    problems = (*log.problems, *result.problems)
    return result.value, {p.code: p.message for p in problems if p.severity is Severity.DOUBT}


def _log(format_name: str, times: list[float] = _TIMES, interval: int = 1) -> list[str]:
    return synthetic_log(format_name, SampleRun(times, interval=interval)).splitlines(keepends=True)


@pytest.mark.parametrize(
    "format_name", ["paddleclas", "ngc-pytorch-convnets", "ngc-mxnet-convnets", "fairseq"]
)
def test_a_sound_log_has_no_doubt(format_name: str, tmp_path: Path) -> None:
    value, doubts = _read(tmp_path, "".join(_log(format_name, interval=10)))

    assert value is not None
    assert not doubts


def test_a_clock_that_jumps_an_hour_is_a_doubt(tmp_path: Path) -> None:
    lines = _log("paddleclas", interval=10)
    half = len(lines) // 2
    late = [
        re.sub(r" (\d\d):(\d\d:\d\d)\]", lambda m: f" {int(m[1]) + 1:02d}:{m[2]}]", line)
        for line in lines[half:]
    ]

    _, doubts = _read(tmp_path, "".join(lines[:half] + late))

    assert "clock" in doubts["stall"]
    assert "record-contradicts-clock" in doubts


def test_one_stamp_of_another_month_is_a_doubt(tmp_path: Path) -> None:
    lines = _log("paddleclas", interval=10)
    place = next(i for i, line in enumerate(lines) if "train step:200 " in line)
    lines[place] = lines[place].replace("2023/07", "2023/06")

    _, doubts = _read(tmp_path, "".join(lines))

    assert "clock-backwards" in doubts


def test_lost_lines_are_counted(tmp_path: Path) -> None:
    lines = _log("ngc-pytorch-convnets")
    del lines[100:140]

    _, doubts = _read(tmp_path, "".join(lines))

    assert doubts["records-missing"].startswith("the step counter shows 40 missing records at 1 place:")


def test_duplicated_lines_are_counted(tmp_path: Path) -> None:
    lines = _log("ngc-pytorch-convnets")
    lines[100:101] = [lines[100]] * 3

    _, doubts = _read(tmp_path, "".join(lines))

    assert doubts["records-doubled"].startswith("2 records")


def test_a_stall_names_its_share_of_the_window_and_the_rate_without_it(tmp_path: Path) -> None:
    times = [0.19] * 60
    times[40] = 5.2

    value, doubts = _read(tmp_path, "".join(_log("ngc-pytorch-convnets", times)))

    assert "takes 41% of the window" in doubts["stall"]
    assert value is not None
    found = re.search(r"would be ([\d.]+)% higher", doubts["stall"])
    assert found is not None
    assert value * (1 + float(found[1]) / 100) == pytest.approx(512 / 0.19, rel=1e-3)


def test_a_step_that_is_too_fast_is_a_doubt(tmp_path: Path) -> None:
    times = [0.19] * 60
    times[40] = 0.05

    _, doubts = _read(tmp_path, "".join(_log("ngc-pytorch-convnets", times)))

    assert re.search(
        r"took [\d.e-]+ s instead of the usual [\d.]+ s, which is implausibly fast", doubts["too-fast"]
    )


def test_a_batch_that_rates_and_clock_contradict_is_a_doubt(tmp_path: Path) -> None:
    text = "".join(_log("ngc-pytorch-convnets"))
    wrong = re.sub(r"(batch_size : )64\b", r"\g<1>94", text)
    assert wrong != text

    _, doubts = _read(tmp_path, wrong)

    assert "the rate, batch, number of devices or steps is wrong" in doubts["rates-contradict-clock"]


def test_a_hash_in_a_name_is_no_number_of_devices(tmp_path: Path) -> None:
    path = tmp_path / "job-c4077615-f00d.log"
    path.write_text("".join(_log("paddleclas", interval=10)))

    assert read_log(path).facts.gpus != 4077615


def test_a_number_based_only_on_the_name_is_a_doubt(tmp_path: Path) -> None:
    path = tmp_path / "imagenet_gpu4_bs32.log"
    path.write_text("".join(_log("pytorch-imagenet", interval=10)))

    log = read_log(path)

    assert {p.severity for p in log.problems if p.code == "from-name"} == {Severity.DOUBT}


def test_an_impossible_number_of_devices_is_a_doubt(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(_log("pytorch-imagenet", interval=10)))

    log = read_log(path, Facts(gpus=4_077_615, batch_per_device=32))

    assert "out-of-bounds" in {p.code for p in log.problems}


def test_a_corrupt_byte_in_the_only_lines_seconds_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    line = b"2021-02-22 02:22:19,513 - INFO - Epoch: 0, using time 130.5%s second, ips 84225.62561 example/sec.\n"
    path.write_bytes(line % b"\xff")

    log = read_log(path, Facts(nodes=1))

    assert measure_log(log).value is None


@_WITHOUT_CORPORA
def test_sound_logs_of_the_corpora_have_no_doubt_about_their_records() -> None:
    mutations = _mutations()
    for log in (log for folder in _CORPORA for log in mutations.corpus(folder)):
        doubts = mutations.read(log).doubts - _REASONED - _STALLED.get(Path(log.name).name, set())

        assert not doubts, log.name


@_WITHOUT_CORPORA
def test_a_sample_of_damaged_logs_gives_no_other_number_without_a_doubt() -> None:
    mutations = _mutations()
    logs = [log for folder in _CORPORA for log in mutations.corpus(folder) if len(log.text) < 100_000]

    tally = mutations.run(logs, range(400), seed=11)

    assert not tally.errors
    assert len(tally.silent) <= 1, tally.silent


def test_every_damage_of_the_benchmark_is_seeded() -> None:
    mutations = _mutations()
    log = mutations.Log("run.txt", "".join(_log("ngc-pytorch-convnets")).encode(), Facts())

    for mutate in mutations.MUTATIONS:
        one, other = (mutate(log, random.Random(3), [log]) for _ in range(2))
        assert one == other


def test_a_status_other_than_ok_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("CUDA out of memory. Tried to allocate 2 GiB\n")

    assert read_log(tmp_path / "a.log").status is Status.OOM
