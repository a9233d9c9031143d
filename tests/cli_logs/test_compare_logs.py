"""``trainmark compare LOG LOG``: the ratio with its interval, the verdict, and what differs in the logs' facts."""

import json
from pathlib import Path

import numpy as np
import pytest

from preloading import call_trainmark
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log


def _log(folder: Path, name: str, seconds: float, *, count: int = 220, gpus: int = 8, seed: int = 3) -> Path:
    times = seconds * (1 + 0.02 * np.random.default_rng(seed).standard_normal(count))
    path = folder / name
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun(times.tolist(), gpus=gpus, batch_per_device=64))
    )
    return path


def test_a_slower_log_is_called_slower_and_exits_with_1(tmp_path: Path) -> None:
    done = call_trainmark(
        "compare", _log(tmp_path, "a.log", 0.5), _log(tmp_path, "b.log", 0.6, seed=4), "--json"
    )

    found = json.loads(done.stdout)
    assert found["change"] == "slower"
    assert found["ratio"] == pytest.approx(5 / 6, rel=0.01)
    assert found["interval"][0] < 5 / 6 < found["interval"][1] < 1
    assert done.returncode == 1


def test_equal_logs_are_indistinguishable(tmp_path: Path) -> None:
    done = call_trainmark("compare", _log(tmp_path, "a.log", 0.5), _log(tmp_path, "b.log", 0.5, seed=4))

    assert "B is indistinguishable from A" in done.stdout
    assert done.returncode == 0


def test_a_difference_within_the_given_share_does_not_count(tmp_path: Path) -> None:
    logs = _log(tmp_path, "a.log", 0.5), _log(tmp_path, "b.log", 0.46, seed=4)

    assert "B is faster" in call_trainmark("compare", *logs).stdout
    assert "B is indistinguishable" in call_trainmark("compare", *logs, "--within", "20").stdout


def test_what_differs_is_listed(tmp_path: Path) -> None:
    done = call_trainmark("compare", _log(tmp_path, "a.log", 0.5), _log(tmp_path, "b.log", 0.5, gpus=4))

    assert "gpus: 8 in A, 4 in B" in done.stdout


def test_the_settings_of_nanogpt_are_compared_by_what_the_command_overrides(tmp_path: Path) -> None:
    paths = []
    for name, command in (("a.log", "compile = False"), ("b.log", "compile = True")):
        steps = "".join(
            f"iter {at}: loss 4.1, time {100 + at % 3}.00ms, mfu 12.00%\n" for at in range(0, 600, 10)
        )
        text = f"compile = True # the file's\nn_layer = 12\nOverriding: {command}\ntokens per iteration will be: 768\n"
        paths.append(tmp_path / name)
        paths[-1].write_text(text + steps)

    done = call_trainmark("compare", *paths)

    assert "compile: False in A, True in B" in done.stdout
    assert "n_layer" not in done.stdout


def test_few_records_give_a_ratio_without_a_verdict(tmp_path: Path) -> None:
    done = call_trainmark(
        "compare", _log(tmp_path, "a.log", 0.5, count=30), _log(tmp_path, "b.log", 0.6, count=30)
    )

    assert "cannot be judged: an interval needs at least 16 records per log" in done.stdout
    assert done.returncode == 1


def test_the_interval_covers_the_truth_of_correlated_steps(tmp_path: Path) -> None:
    """Steps that drift slowly resemble their neighbours: an interval from single steps would be far too narrow."""
    covered = 0
    for seed in range(12):
        chance = np.random.default_rng(seed)
        logs = []
        for name in "ab":
            drift = np.convolve(chance.standard_normal(460), np.ones(40) / 6.3, "valid")
            times = (0.5 * (1 + 0.02 * drift)).tolist()
            path = tmp_path / f"{name}.log"
            path.write_text(
                synthetic_log("ngc-pytorch-convnets", SampleRun(times, gpus=8, batch_per_device=64))
            )
            logs.append(path)
        low, high = json.loads(call_trainmark("compare", *logs, "--json").stdout)["interval"]
        covered += low <= 1 <= high
    assert covered >= 9


@pytest.mark.parametrize(
    ("text", "words"),
    [("nothing\n", "no throughput"), ("step: 1\n" * 9, "no throughput")],
)
def test_a_log_without_a_number_is_named_with_the_reason(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "b.log").write_text(text)

    done = call_trainmark("compare", _log(tmp_path, "a.log", 0.5), tmp_path / "b.log")

    assert done.returncode == 2
    assert words in done.stderr
    assert "b.log" in done.stderr


def test_logs_that_count_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text(synthetic_log("torchtitan", SampleRun([0.5] * 60)))

    done = call_trainmark("compare", _log(tmp_path, "a.log", 0.5), tmp_path / "b.log")

    assert done.returncode == 2
    assert "tokens/s" in done.stderr


def test_a_log_and_a_result_are_refused(tmp_path: Path) -> None:
    done = call_trainmark("compare", _log(tmp_path, "a.log", 0.5), tmp_path)

    assert done.returncode == 2
    assert "compare two logs, or two results" in done.stderr


def test_flags_of_logs_are_refused_for_results(tmp_path: Path) -> None:
    done = call_trainmark("compare", tmp_path, tmp_path, "--gpus", "4")

    assert done.returncode == 2
    assert "are for two logs" in done.stderr
