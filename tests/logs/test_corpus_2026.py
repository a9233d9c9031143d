"""Logs of 2024 to 2026: each row of the corpus' truth comes out as it says, and the field cases too."""

import shlex
from typing import Any

import pytest

from corpora import CORPUS_2026, truth_of
from trainmark.logs import Facts
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_log

_FLAGS = {"--gpus": "gpus", "--batch": "batch_per_device", "--nodes": "nodes"}


def _row(name: str, flags: str = "") -> dict[str, Any]:
    words = shlex.split(flags)
    given = {_FLAGS[flag]: int(value) for flag, value in zip(words[::2], words[1::2], strict=True)}
    log = read_log(CORPUS_2026 / name, Facts(**given), guess=True)  # type: ignore[arg-type]
    return reading_row(log, measure_log(log))


@pytest.mark.parametrize("truth", truth_of(CORPUS_2026, lambda row: f"{row['log']} {row['flags']}".strip()))
def test_a_log_of_today_gives_the_right_number_or_none(truth: dict[str, str]) -> None:
    row = _row(f"logs/{truth['log']}", truth["flags"])

    if truth["must"] == "null" or (truth["must"] == "read-or-null" and row["throughput"] is None):
        assert row["throughput"] is None
        return
    assert float(truth["low"]) <= row["throughput"] <= float(truth["high"])
    if truth["precision"]:
        assert row["precision"] == truth["precision"]


_CASES = [
    ("01_maxtext_async_step1", "--gpus 4", (34_000, 35_500)),
    ("02_torchtitan_wps_srun_4nodes", "--gpus 32", (57_000, 57_700)),
    ("04_nanochat_a100_mfu", "", (526_000, 531_000)),
    ("05_olmo_core_instant_vs_avg", "--gpus 1", (250_000, 260_000)),
    ("06_ms_swift_running_rate", "--gpus 1 --batch 1", (0.19, 0.22)),
    ("07_ultralytics_epochs", "--gpus 1 --batch 16", (4, 5)),
    ("08_megatron_mixtral_excerpt", "", (21.6, 23.5)),
    ("10_nanotron_suffixes", "", (22_700, 22_900)),
    ("11_primus_slash_average", "", (704, 705.5)),
    ("14_megatron_samples_tgs", "", None),
    ("15_llamafactory_resumed", "", (280, 292)),
    ("21_torchtitan_mfu_over_100", "--gpus 8", (81_000, 82_000)),
]


@pytest.mark.skipif(
    not CORPUS_2026.is_dir(), reason="the corpus of real logs (../shared/corpus-2026) is not here"
)
@pytest.mark.parametrize(("name", "flags", "value"), _CASES, ids=[case[0] for case in _CASES])
def test_a_field_case_comes_out_as_its_truth_says(
    name: str, flags: str, value: tuple[float, float] | None
) -> None:
    row = _row(f"cases/{name}.log", flags)

    if value is None:
        assert row["throughput"] is None
    else:
        assert value[0] <= row["throughput"] <= value[1], row["problems"]
