"""What an audit makes of a printed figure: its marks, its unit, the digits behind it, and the time that it hides."""

from decimal import Decimal
from pathlib import Path

import pytest

from trainmark.logs import Facts, ParsedLog
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import AuditVerdict, Claim, judge, measure_log
from trainmark.measure.rules.claims import readings_of
from trainmark.measure.rules.stretches import span_of_stretches
from trainmark.programs import read_log, synthetic_log


def _log(tmp_path: Path, times: list[float]) -> ParsedLog:
    path = tmp_path / "run.txt"
    path.write_text(synthetic_log("ngc-pytorch-convnets", SampleRun(times, gpus=1, batch_per_device=100)))
    return read_log(path, Facts(gpus=1))


@pytest.mark.parametrize(
    ("printed", "readings"),
    [
        ("222,75", ["222.75"]),
        ("222,752", ["222752", "222.752"]),
        ("1.222,75", ["1222.75"]),
        ("21,259.81", ["21259.81"]),
        ("21 259.81", ["21259.81"]),
        ("1,234,567", ["1234567"]),
        ("1.234.567", ["1234567"]),
        ("0,125", ["0.125"]),
        ("1.222", ["1.222"]),
        ("790", ["790"]),
        ("OOM", []),
        ("", []),
    ],
)
def test_the_separators_of_a_printed_figure_are_recognised(printed: str, readings: list[str]) -> None:
    assert list(readings_of(printed)) == [Decimal(word) for word in readings]


def test_an_ambiguous_comma_is_read_as_a_rule_gives_it_with_a_note(tmp_path: Path) -> None:
    log = _log(tmp_path, [0.45 + 0.01 * (i % 3) for i in range(120)])
    value = measure_log(log).value
    assert value is not None

    finding = judge(Claim("run.txt", f"{value:.3f}".replace(".", ",")), log)

    assert finding.verdict is AuditVerdict.REPRODUCED
    assert "read as" in finding.note


def test_equal_digits_in_another_unit_are_not_reproduced(tmp_path: Path) -> None:
    log = _log(tmp_path, [0.5] * 120)

    same, other = (judge(Claim("run.txt", "200.0", unit=unit), log) for unit in ("images/s", "tokens/s"))

    assert (same.verdict, other.verdict) == (AuditVerdict.REPRODUCED, AuditVerdict.UNEXPLAINED)
    assert "in another unit" in other.note


def test_the_rounding_of_the_last_printed_digit_widens_the_range(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "".join(
            f"2023/11/29 02:{n:02d}:00 - mmengine - INFO - Iter(train) [{50 * n:6d}/6000]  lr: 1.9e-03  eta: 4:27:58  "
            "time: 0.002  data_time: 0.0001  memory: 20138  loss: 0.7690\n"
            for n in range(1, 50)
        )
    )

    span = span_of_stretches(read_log(path, Facts(gpus=1, batch_per_device=32)))

    assert span is not None
    assert span.low == pytest.approx(12_800)
    assert span.high == pytest.approx(32 / 0.0015)


def test_a_median_that_ignores_stalls_is_noted(tmp_path: Path) -> None:
    log = _log(tmp_path, [2.0 if i % 8 == 7 else 0.5 for i in range(160)])

    finding = judge(Claim("run.txt", "200.0"), log)

    assert finding.rule == "median-skip-0"
    assert "ignores stalls, which took" in finding.note
