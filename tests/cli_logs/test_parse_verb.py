"""``trainmark parse`` as it is called: rows, exit codes, standard input, trees, lists."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from preloading import call_trainmark
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log
from trainmark.schema.outcome import Outcome, OutcomeRecord

_KEYS = [
    *("log", "format", "framework", "model", "precision", "nodes", "gpus", "batch_per_device", "unit"),
    *("records", "skipped", "rule", "throughput", "status", "problems"),
    *("global_batch", "mfu", "tflops_per_device", "needs", "witnesses"),
]


def _trainmark(*words: str | Path) -> tuple[int, str, str]:
    done = call_trainmark(*words)
    return done.returncode, done.stdout, done.stderr


def _trainmark_reading(stdin: bytes, *words: str) -> tuple[int, str, str]:
    """Start it as a user does, and let it read."""
    done = subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", *words], input=stdin, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _rows(stdout: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in stdout.splitlines()]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "pytorch_gpu8_fp32_bs64.txt"
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([0.5] * 120, gpus=8, batch_per_device=64))
    )
    return path


def test_a_good_log_gives_one_row_with_the_frozen_keys_and_exit_code_0(good: Path) -> None:
    code, stdout, stderr = _trainmark("parse", good, "--json", "--precision", "fp32")

    (row,) = _rows(stdout)
    assert (code, stderr) == (0, "")
    assert list(row) == _KEYS
    assert (row["gpus"], row["batch_per_device"], row["precision"]) == (8, 64, "fp32")
    assert (row["throughput"], row["unit"], row["rule"]) == (pytest.approx(1024), "images/s", "window")
    assert (row["records"], row["skipped"], row["status"], row["problems"]) == (120, 20, "ok", [])


def test_one_bad_log_gives_exit_code_1_and_the_others_are_still_read(good: Path, tmp_path: Path) -> None:
    (tmp_path / "a_oom.log").write_text("CUDA out of memory\n")
    (tmp_path / "b_empty.log").write_text("")
    (tmp_path / "c_binary.log").write_bytes(b"\x7fELF" + bytes(300))

    code, stdout, _ = _trainmark("parse", tmp_path, "--json")

    statuses = {Path(str(row["log"])).name: row["status"] for row in _rows(stdout)}
    assert code == 1
    assert statuses == {
        "a_oom.log": "oom",
        "b_empty.log": "empty",
        "c_binary.log": "unreadable",
        good.name: "ok",
    }


def test_explain_prints_the_number_of_the_table(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {at}: loss 1.0, time {248.12:.2f}ms, mfu 44.10%\n" for at in range(60)))

    numbers = {
        word
        for words in ((), ("--explain",))
        for word in _trainmark("parse", log, "--gpus", "1", "--batch", "491520", *words)[1].split()
        if word.startswith("19")
    }

    assert len(numbers) == 1
    assert int(numbers.pop()) == pytest.approx(491520 / 0.24812, abs=0.5)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_folder_without_a_log_is_reported_and_gives_exit_code_1(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert _trainmark("parse", tmp_path, *words)[0::2] == (1, "trainmark parse: no log files found\n")


def test_standard_input_and_gzip_are_read(good: Path) -> None:
    for data in (good.read_bytes(), gzip.compress(good.read_bytes())):
        code, stdout, _ = _trainmark_reading(data, "parse", "-", "--json")

        (row,) = _rows(stdout)
        assert (code, row["log"], row["throughput"]) == (0, "-", pytest.approx(1024))


def test_a_table_for_people_has_units_and_problems(good: Path) -> None:
    good.write_text("".join(line + "\n" for line in good.read_text().splitlines()[:90]))

    code, stdout, _ = _trainmark("parse", good)

    assert code == 0
    assert "1024  images/s  ok" in stdout
    assert "note [incomplete]" in stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("parse",), "no log given"),
        (("parse", "nothing.log"), "nothing.log: no such file"),
        (("parse", "x", "--rule", "windo"), "did you mean 'window'?"),
        (("parse", "x", "--precision", "fp23"), "did you mean"),
        (("parse", "--tree", "nowhere"), "no such folder"),
        (("parse", "x", "--rule", "table", "--skip", "3"), "drop --skip"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(words: tuple[str, ...], expected: str) -> None:
    code, stdout, stderr = _trainmark(*words)

    assert (code, stdout) == (2, "")
    assert expected in stderr
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("rule", "value", "skipped"),
    [
        (("--rule", "mean", "--skip", "5"), 1024.0, 5),
        (("--rule", "mean-skip-9"), 1024.0, 9),
        (("--rule", "mean-last-90"), 1024.0, 30),
        (("--rule", "trimmed-skip-10"), 1024.0, 10),
        (("--rule", "median", "--skip", "3"), 1024.0, 3),
        (("--rule", "harmonic-skip-2"), 1024.0, 2),
        (("--rule", "summary"), 1024.0, 0),
        (("--rule", "dlperf-speed"), 1024.0, 20),
        (("--rule", "dlperf-time"), 1024.0, 20),
        (("--skip", "7"), 1024.0, 7),
    ],
)
def test_a_rule_can_be_named(good: Path, rule: tuple[str, ...], value: float, skipped: int) -> None:
    _, stdout, _ = _trainmark("parse", good, *rule, "--json")

    (row,) = _rows(stdout)
    assert (row["throughput"], row["skipped"]) == (pytest.approx(value), skipped)


def test_flags_fill_in_facts_that_the_log_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("pytorch-imagenet", SampleRun([0.5] * 60)))

    _, silent, _ = _trainmark("parse", path, "--json")
    _, with_flags, _ = _trainmark(
        "parse", path, "--json", "--gpus", "4", "--batch", "32", "--precision", "tf32"
    )

    (before,), (after,) = _rows(silent), _rows(with_flags)
    assert (before["throughput"], before["status"], before["gpus"]) == (None, "incomplete", None)
    assert (after["throughput"], after["precision"], after["gpus"]) == (pytest.approx(256), "tf32", 4)


def test_all_missing_flags_are_listed_and_the_log_is_not_called_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("pytorch-imagenet", SampleRun([0.5] * 60)))

    _, stdout, _ = _trainmark("parse", path)
    _, silent, _ = _trainmark("parse", path, "--json")

    assert "needs --gpus --batch" in stdout.splitlines()[1]
    assert "devices and batch per device: add --gpus and --batch" in stdout
    assert _rows(silent)[0]["needs"] == ["--gpus", "--batch"]


def test_the_global_batch_and_the_printed_device_use_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("nemo", SampleRun([0.5] * 60)))
    titan = tmp_path / "b.log"
    titan.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 60)))

    _, stdout, _ = _trainmark("parse", path, titan)
    _, as_json, _ = _trainmark("parse", path, titan, "--json")

    batch = _rows(as_json)[0]["global_batch"]
    assert f"global {batch} " in stdout
    assert f"{titan}: the program prints 339.16 TFLOP/s per device, MFU 34.29%\n" in stdout
    assert [row["mfu"] for row in _rows(as_json)] == [None, 0.3429]


def test_the_lists_name_every_rule_and_format() -> None:
    from trainmark.measure.rules import catalogue
    from trainmark.programs import formats

    rules, listed = _trainmark("parse", "--list-rules"), _trainmark("parse", "--list-formats", "--json")

    assert all(rule.name in rules[1] for rule in catalogue())
    assert [row["format"] for row in _rows(listed[1])] == [known.name for known in formats()]


def test_a_tree_prints_the_rows_of_the_publishers_script(tmp_path: Path) -> None:
    for place, gpus, seconds in (("1n1g", 1, 0.5), ("1n8g", 8, 0.55)):
        (tmp_path / place).mkdir()
        for repeat in range(1, 6):
            text = synthetic_log(
                "ngc-tensorflow-convnets", SampleRun([seconds] * 130, gpus=gpus, batch_per_device=128)
            )
            (tmp_path / place / f"r50_b128_fp32_{repeat}.log").write_text(text)

    code, stdout, _ = _trainmark("parse", "--tree", tmp_path, "--json")

    single, eight = _rows(stdout)
    assert code == 0
    assert (single["median_speed"], single["speedup"]) == (256.0, 1.0)
    assert (eight["median_speed"], eight["speedup"]) == (1861.82, 7.27)
    assert eight["speeds"] == {str(repeat): 1861.82 for repeat in range(1, 6)}


def test_logs_become_rows_of_the_database(good: Path, tmp_path: Path) -> None:
    (tmp_path / "silent.log").write_text(synthetic_log("timm", SampleRun([0.5] * 40)))

    code, stdout, stderr = _trainmark("parse", tmp_path, "--to", "paddle-json", "--model", "ResNet50V1.5")

    (row,) = json.loads(stdout)
    assert (code, row["log_file"]) == (1, "clas_ResNet50V1.5_mp_bs64_fp32_8_speed")
    assert (row["FINAL_RESULT"], row["gpu_num"], row["JOB_FAIL_FLAG"]) == (1024.0, 8, 0)
    assert "silent.log: the log does not state its batch_per_device" in stderr


def test_a_log_that_ran_out_of_memory_is_a_row_with_its_flag_and_no_number(good: Path) -> None:
    good.write_text("".join(good.read_text().splitlines(keepends=True)[:40]) + "CUDA out of memory\n")

    code, stdout, _ = _trainmark("parse", good, "--to", "paddle-json")

    (row,) = json.loads(stdout)
    assert (code, row["FINAL_RESULT"], row["JOB_FAIL_FLAG"]) == (1, None, 1)


def test_logs_become_the_result_of_dlperf(tmp_path: Path) -> None:
    for gpus in (1, 8):
        for repeat in (1, 2, 3):
            text = synthetic_log("ngc-mxnet-convnets", SampleRun([0.5 * repeat] * 130, gpus=gpus))
            (tmp_path / f"gpu{gpus}_{chr(96 + repeat)}.log").write_text(text)

    code, stdout, _ = _trainmark("parse", tmp_path, "--to", "dlperf-json", "--model", "r50")

    (result,) = json.loads(stdout).values()
    assert code == 0
    assert (result["1n1g"]["median_speed"], result["1n8g"]["speedup"]) == (64.0, 8.0)


@pytest.mark.parametrize("tree", [True, False])
def test_a_missing_speedup_between_different_devices_is_reported(tmp_path: Path, tree: bool) -> None:
    for place, gpus, device in (("1n1g", 1, "Tesla V100-SXM2-32GB"), ("1n8g", 8, "NVIDIA A100-SXM4-40GB")):
        (tmp_path / place).mkdir()
        text = synthetic_log(
            "ngc-tensorflow-convnets", SampleRun([0.5] * 130, gpus=gpus, batch_per_device=128)
        )
        (tmp_path / place / "r50_b128_fp32_1.log").write_text(f"{device}\n{text}")

    code, stdout, stderr = _trainmark("parse", *(["--tree"] if tree else []), tmp_path, "--to", "dlperf-json")

    ((model, result),) = json.loads(stdout).items()
    assert (code, result["1n1g"]["speedup"], result["1n8g"]["speedup"]) == (1, 1.0, None)
    assert stderr.endswith(
        f"no speedup, because the hardware differs: {model} 1n8g ran on NVIDIA A100-SXM4-40GB, "
        "1n1g ran on Tesla V100-SXM2-32GB\n"
    )


@pytest.mark.parametrize("form", ["paddle-json", "dlperf-json"])
def test_a_tree_becomes_both_formats(tmp_path: Path, form: str) -> None:
    for place, gpus in (("1n1g", 1), ("1n8g", 8)):
        (tmp_path / place).mkdir()
        for repeat in (1, 2):
            text = synthetic_log(
                "ngc-tensorflow-convnets", SampleRun([0.5] * 130, gpus=gpus, batch_per_device=128)
            )
            (tmp_path / place / f"r50_b128_fp32_{repeat}.log").write_text(text)
    (tmp_path / "1n8g" / "r50_b128_fp32_2.log").write_text("CUDA out of memory\n")

    code, stdout, _ = _trainmark("parse", "--tree", tmp_path, "--to", form)

    document = json.loads(stdout)
    assert code == 1
    if form == "dlperf-json":
        assert document["r50"]["1n8g"] == {
            "average_speed": 2048.0,
            "batch_size_per_device": 128,
            "median_speed": 2048.0,
            "speedup": 8.0,
        }
    else:
        assert [row["FINAL_RESULT"] for row in document] == [256.0, 256.0, 2048.0, None]
        assert {row["UNIT"] for row in document} == {"images/s"}


@pytest.mark.parametrize("words", [("--gpus", "8"), ("--precision", "fp32"), ("--model", "r50")])
def test_a_flag_that_a_tree_would_ignore_is_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    code, stdout, stderr = _trainmark("parse", "--tree", tmp_path, *words)

    assert (code, stdout) == (2, "")
    assert (
        stderr
        == f"trainmark parse: --tree cannot be combined with {words[0]}: the paths in the tree state these\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--to", "paddle-json", "--json"), "leave out --json"),
        (("--mission", "x"), "--mission is for --to paddle-json"),
        (("--to", "paddle-json", "--mission", "image clasification"), "did you mean 'image classification'?"),
    ],
)
def test_an_exchange_that_contradicts_itself_is_a_usage_error(
    good: Path, words: tuple[str, ...], expected: str
) -> None:
    code, stdout, stderr = _trainmark("parse", good, *words)

    assert (code, stdout) == (2, "")
    assert expected in stderr


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a result directory with a run of ours, one of another program, an interrupted one, and a probe."""
    folder = tmp_path / "out"
    for name in ("ours", "others"):
        (folder / "runs" / name / "1").mkdir(parents=True)
        (folder / "runs" / name / "1" / "outcome.json").write_text("{}")
        (folder / "runs" / name / "1" / "telemetry.jsonl").write_text("{}\n")
    (folder / "runs" / "ours" / "1" / "train.log").write_text("warming up\n")
    (folder / "runs" / "ours" / "1" / "events.jsonl").write_text(
        synthetic_log("trainmark", SampleRun([0.5] * 40))
    )
    (folder / "runs" / "others" / "1" / "train.log").write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([0.5] * 120, amp=True))
    )
    probe = folder / "runs" / "ours" / "probe-b64"
    probe.mkdir()
    (probe / "outcome.json").write_text("{}")
    (probe / "train.log").write_text("CUDA out of memory\n")
    interrupted = folder / "runs" / "ours" / "1.interrupted-1"
    interrupted.mkdir()
    for name in ("manifest.json", "ranks.json", "train.log", "stderr.rank0"):
        (interrupted / name).write_text("{}\n")
    for name in ("suite.yaml", "results.json", "report.html", "results.sqlite"):
        (folder / name).write_text("<html>")
    return folder


def test_only_the_runs_of_a_result_directory_are_read(results: Path) -> None:
    code, stdout, stderr = _trainmark("parse", results, "--json")

    rows = _rows(stdout)
    assert code == 0
    assert [(row["format"], row["status"]) for row in rows] == [
        ("ngc-pytorch-convnets", "ok"),
        ("trainmark", "ok"),
    ]
    assert "a result directory: only events.jsonl or train.log of each run is read" in stderr


@pytest.mark.parametrize("printed", ["", "warming up\n"])
def test_a_run_that_failed_before_its_events_has_its_recorded_outcome(results: Path, printed: str) -> None:
    folder = results / "runs" / "ours" / "1"
    (folder / "events.jsonl").unlink()
    (folder / "train.log").write_text(printed)
    record = OutcomeRecord(case_id="ours", repeat=1, outcome=Outcome.FAILED, reason="no space left on device")
    (folder / "outcome.json").write_text(record.model_dump_json())

    code, stdout, _ = _trainmark("parse", folder, "--json")

    (row,) = _rows(stdout)
    assert (code, row["status"], row["throughput"]) == (1, "failed", None)
    assert "the recorded outcome of the run is failed: no space left on device" in str(row["problems"])


def test_the_output_of_a_trainmark_run_is_recognised_and_its_events_are_read(results: Path) -> None:
    code, stdout, stderr = _trainmark("parse", results / "runs" / "ours" / "1" / "train.log", "--json")

    (row,) = _rows(stdout)
    assert (code, row["format"], Path(str(row["log"])).name) == (0, "trainmark", "events.jsonl")
    assert "events.jsonl in the same folder is read instead" in stderr


def test_a_log_is_followed_until_the_user_interrupts(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    lines = synthetic_log("torchtitan", SampleRun([0.5] * 60, gpus=2)).splitlines(keepends=True)
    path.write_text("".join(lines[:40]))
    words = [sys.executable, "-m", "trainmark.cli.main", "parse", "--follow", str(path), "--json"]

    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        with path.open("a") as file:
            file.write("".join(lines[40:50]))
        second = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        rest = watching.stdout.read()

    last = json.loads(rest.splitlines()[-1])
    assert (first["records"], second["records"], last["records"]) == (38, 48, 48)
    assert (first["in_progress"], second["in_progress"], last["in_progress"]) == (True, True, False)
    assert second["throughput"] == pytest.approx(256, rel=0.01)
    assert watching.returncode == 0  # a missing end of the run is only a note


def test_a_tree_of_another_layout_is_read_by_its_pattern(tmp_path: Path) -> None:
    for nodes, repeat in ((1, 1), (1, 2), (2, 1)):
        path = tmp_path / "gpt2" / f"{nodes}x4" / f"bs64.amp-bf16.run{repeat}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(synthetic_log("build-nanogpt", SampleRun([0.5 / nodes] * 60, gpus=4 * nodes)))
    layout = "{model}/{nodes}x{gpus}/bs{batch}.{precision}.run{repeat}.txt"

    code, out, _ = _trainmark("parse", "--tree", tmp_path, "--layout", layout, "--json")

    found = [(row["model"], row["placement"], row["gpus"], len(row["speeds"])) for row in _rows(out)]  # type: ignore[arg-type]
    assert found == [("gpt2", "1n4g", 4, 2), ("gpt2", "2n4g", 8, 1)]
    assert code == 1  # without 1n1g there is no speedup


def test_a_tree_reports_a_contradiction_once_and_why_a_run_crashed(tmp_path: Path) -> None:
    folder = tmp_path / "1n8g"
    folder.mkdir()
    other = synthetic_log("ngc-mxnet-convnets", SampleRun([0.5] * 60, gpus=4, batch_per_device=32, amp=True))
    (folder / "r50_b64_fp32_1.log").write_text(other)
    died = "\n".join(other.split("\n")[:30]) + "\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n"
    (folder / "r50_b64_fp32_2.log").write_text(died)
    layout = "{nodes}n{gpus}g/{model}_b{batch}_{precision}_{repeat}.log"

    _, out, _ = _trainmark("parse", "--tree", tmp_path, "--layout", layout, "--json")

    problems = [(p["code"], p["message"].partition(".log: ")[2]) for p in _rows(out)[0]["problems"]]  # type: ignore[attr-defined]
    contradictions = [message for code, message in problems if "contradicts" in code]
    assert contradictions == [
        "the name says 8 devices, the log says 4: the log's value is used",
        "the name says 64 batch per device, the log says 32: the log's value is used",
        "the name says fp32 precision, the log says amp-fp16: the log's value is used",
    ]
    assert (
        "repeat-oom",
        "oom, no speed: the run ran out of memory: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
    ) in problems


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("{node}n/x.log", "no field '{node}'"),
        ("x.log", "has no field"),
        ("{gpus}/{gpus}.log", "twice"),
        ("{gpus}g.log", "no file matches the pattern"),
    ],
)
def test_a_layout_that_cannot_be_read_is_refused_with_the_reason(
    tmp_path: Path, layout: str, reason: str
) -> None:
    (tmp_path / "some.log").write_text("nothing")

    code, _, err = _trainmark("parse", "--tree", tmp_path, "--layout", layout)

    assert code == 2
    assert reason in err


def test_more_skipped_records_than_there_are_is_named_as_that(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(synthetic_log("ngc-pytorch-convnets", SampleRun([0.5] * 60)))

    done = call_trainmark("parse", log, "--skip", "500")

    assert "--skip leaves out 500 records, and the log has 60: give a smaller number" in done.stdout
