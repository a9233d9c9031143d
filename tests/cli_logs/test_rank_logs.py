"""``trainmark parse --ranks``: a table of the ranks of one job, the slow ones by name, and the exit code."""

import json
from pathlib import Path

import numpy as np
import pytest

from preloading import call_trainmark
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log


def _logs(folder: Path, seconds: list[float], count: int = 220) -> Path:
    for rank, step_s in enumerate(seconds):
        times = step_s * (1 + 0.02 * np.random.default_rng(rank).standard_normal(count))
        text = synthetic_log("ngc-pytorch-convnets", SampleRun(times.tolist(), gpus=8, batch_per_device=64))
        (folder / f"rank{rank}.log").write_text(text, encoding="utf-8")
    return folder


def test_a_slow_rank_is_named_and_the_exit_code_is_1(tmp_path: Path) -> None:
    folder = _logs(tmp_path, [0.4, 0.4, 0.5, 0.4])
    text = call_trainmark("parse", "--ranks", folder)
    document = json.loads(call_trainmark("parse", "--ranks", folder, "--json").stdout)

    assert text.returncode == 1
    assert "slow: rank 2 is 2" in text.stdout
    assert "% slower than the others" in text.stdout
    assert [one["is_slower"] for one in document["ranks"]] == [False, False, True, False]
    assert document["ranks"][2]["slower_by"] == pytest.approx(0.25, abs=0.02)


def test_ranks_of_one_pace_exit_with_0(tmp_path: Path) -> None:
    done = call_trainmark("parse", "--ranks", _logs(tmp_path, [0.4, 0.4, 0.4]))

    assert done.returncode == 0
    assert "note: all ranks have one pace within 0." in done.stdout


def test_one_rank_or_other_flags_are_refused_by_one_line(tmp_path: Path) -> None:
    folder = _logs(tmp_path, [0.4])
    alone = call_trainmark("parse", "--ranks", folder)
    explained = call_trainmark("parse", "--ranks", "--explain", folder)

    assert (alone.returncode, explained.returncode) == (2, 2)
    assert "1 rank prints records" in alone.stderr
    assert "leave out --follow, --tree, --to, --explain and --rule" in explained.stderr
