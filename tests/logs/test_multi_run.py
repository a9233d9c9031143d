"""Several runs in one file whose counters go on: what the text says twice gives them away."""

import re

from conftest_logs import Reader, sample

from trainmark.logs import ParsedLog, Severity


def _doubts(log: ParsedLog) -> dict[str, str]:
    return {p.code: p.message for p in log.problems if p.severity is Severity.DOUBT}


def _mesh(devices: int) -> str:
    return (
        "[titan] 2025-06-16 22:20:05,100 - root - INFO - Building 1-D device mesh with "
        f"['dp_shard'], [{devices}]\n"
    )


def _torchtitan(steps: int) -> list[str]:
    return [line for line in sample("torchtitan", steps).splitlines(keepends=True) if "step:" in line]


def test_a_run_that_continues_with_other_devices_is_another_run(read: Reader) -> None:
    lines = _torchtitan(400)
    lines[200:200] = [_mesh(64)]

    doubts = _doubts(read("".join([_mesh(8), *lines])))

    assert "reports 8 devices, and after its first records 64 devices" in doubts["several-runs"]


def test_the_same_header_again_is_no_other_run(read: Reader) -> None:
    lines = _torchtitan(400)
    lines[200:200] = [_mesh(8)]

    assert "several-runs" not in _doubts(read("".join([_mesh(8), *lines])))


def test_a_second_start_is_found_far_down_in_a_long_log(read: Reader) -> None:
    header = "using world size: {0}, data-parallel size: {0}\n  global_batch_size ...... 128\n"
    records = [
        f" iteration {i:8d}/ 12000 | consumed samples: {128 * i} | elapsed time per iteration (ms): 1000.0 | "
        "learning rate: 9.150E-06 | global batch size:   128 | lm loss: 2.5E+00 |\n"
        for i in range(1, 12_001)
    ]
    records[6000:6000] = [header.format(64)]

    doubts = _doubts(read("".join([header.format(8), *records])))

    assert "8 devices" in doubts["several-runs"]


def test_lines_of_one_step_with_different_global_rates_are_not_ranks(read: Reader) -> None:
    text = sample("ngc-pytorch-convnets")
    doubled = re.sub(
        r"(DLL [^\n]*train\.total_ips : )([\d.]+)([^\n]*\n)",
        lambda m: m[0] + f"{m[1]}{3 * float(m[2]):.2f}{m[3]}",
        text,
    )
    copied = re.sub(r"(DLL [^\n]*train\.total_ips : [^\n]*\n)", r"\1\1", text)

    assert "67%" in _doubts(read(doubled))["several-runs"] or "200%" in _doubts(read(doubled))["several-runs"]
    assert "several-runs" not in _doubts(read(copied))


def test_two_results_of_a_program_that_prints_one_are_two_runs(read: Reader) -> None:
    text = sample("nvidia-ssd")
    slower = re.sub(r"(Average images/sec: )([\d.]+)", lambda m: f"{m[1]}{float(m[2]) / 10:.3f}", text)

    assert "contains 2 results of the program" in _doubts(read(text + slower))["several-runs"]
    assert "several-runs" not in _doubts(read(text + text))
