"""Units of published values are dimensions: converted where the log allows it, else incomparable."""

from pathlib import Path

import pytest

from trainmark.logs import Facts, ParsedLog
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import AuditVerdict, judge
from trainmark.measure.rules.claims import Claim
from trainmark.measure.rules.units import Dimension, Unit, parse_unit
from trainmark.programs import read_log, synthetic_log


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("images/s", Unit(Dimension.ITEMS, "images/s")),
        ("tok/s/GPU", Unit(Dimension.ITEMS, "tok/s", per_device=True)),
        ("tokens per second per device", Unit(Dimension.ITEMS, "tokens/s", per_device=True)),
        ("k tokens/s", Unit(Dimension.ITEMS, "tokens/s", scale=1e3)),
        ("ms/step", Unit(Dimension.STEPS, inverse=True, scale=1e-3)),
        ("s/iter", Unit(Dimension.STEPS, inverse=True)),
        ("it/s", Unit(Dimension.STEPS)),
        ("TFLOP/s/GPU", Unit(Dimension.TFLOPS, per_device=True)),
        ("TFLOPS", Unit(Dimension.TFLOPS)),
        ("PFLOP/s", Unit(Dimension.TFLOPS, scale=1e3)),
        ("%", Unit(Dimension.MFU, scale=0.01)),
        ("MFU", Unit(Dimension.MFU, scale=0.01)),
        ("samples/min", Unit(Dimension.ITEMS, "samples/s", scale=1 / 60)),
        ("M samples/hour", Unit(Dimension.ITEMS, "samples/s", scale=1e6 / 3600)),
        ("FPS", Unit(Dimension.ITEMS, "frames/s")),
        ("k FPS", Unit(Dimension.ITEMS, "frames/s", scale=1e3)),
        ("TGS", Unit(Dimension.ITEMS, "tokens/s", per_device=True)),
        ("tps/GPU", Unit(Dimension.ITEMS, "tokens/s", per_device=True)),
        ("bananas", None),
        ("", None),
    ],
)
def test_spellings_of_units(text: str, unit: Unit | None) -> None:
    assert parse_unit(text) == unit


@pytest.fixture
def log(tmp_path: Path) -> ParsedLog:
    """Return a log of 8 devices, a batch of 64 each, steps of 0.5 s: 1024 images/s."""
    path = tmp_path / "a.log"
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([0.5] * 120, gpus=8, batch_per_device=64))
    )
    return read_log(path)


@pytest.mark.parametrize(
    ("published", "unit", "verdict"),
    [
        ("1024", "images/s", AuditVerdict.REPRODUCED),
        ("128.0", "images/s/GPU", AuditVerdict.REPRODUCED),
        ("2.000", "it/s", AuditVerdict.REPRODUCED),
        ("500.0", "ms/step", AuditVerdict.REPRODUCED),
        ("0.500", "s/iteration", AuditVerdict.REPRODUCED),
        ("700.0", "ms/step", AuditVerdict.UNEXPLAINED),
        ("61440", "images/min", AuditVerdict.REPRODUCED),
        ("312.5", "TFLOP/s/GPU", AuditVerdict.INCOMPARABLE),
        ("41.2", "%", AuditVerdict.INCOMPARABLE),
        ("99999", "tokens/s", AuditVerdict.INCOMPARABLE),
    ],
)
def test_a_claim_is_converted_or_incomparable(
    log: ParsedLog, published: str, unit: str, verdict: AuditVerdict
) -> None:
    assert judge(Claim("a.log", published, unit=unit), log).verdict is verdict


def test_a_figure_that_the_program_prints_is_compared_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 60)))
    log = read_log(path)

    verdicts = [
        judge(Claim("a.log", value, unit=unit), log).verdict
        for value, unit in (
            ("339.16", "TFLOP/s/GPU"),
            ("2713.3", "TFLOPS"),
            ("34.29", "MFU"),
            ("50.0", "MFU"),
        )
    ]

    reproduced = AuditVerdict.REPRODUCED
    assert verdicts == [reproduced, reproduced, reproduced, AuditVerdict.UNEXPLAINED]


@pytest.mark.parametrize("unit", ["tok/s/GPU", "toks/s/GPU", "tokens/s/GPU", "words per second per device"])
def test_a_short_word_for_tokens_counts_tokens(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 60, gpus=8, batch_per_device=4096)))

    finding = judge(Claim("a.log", "8192", unit=unit, gpus=8), read_log(path, Facts(gpus=8)))

    assert finding.verdict is AuditVerdict.REPRODUCED


def test_a_rate_per_device_needs_the_devices(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(synthetic_log("timm", SampleRun([0.5] * 60)).replace("total 8", "total x"))
    log = read_log(path, Facts())

    finding = judge(Claim("a.log", "128.0", unit="images/s/GPU"), log)

    assert log.facts.gpus is not None or finding.verdict is AuditVerdict.INCOMPARABLE


def test_rounded_and_then_multiplied_is_a_known_mix_up(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([0.4987] * 120, gpus=8, batch_per_device=64))
    )

    # 8 x 128.3337 = 1026.67: rounded to 128.3 before it was multiplied.
    finding = judge(Claim("a.log", "1026.4"), read_log(path))

    assert finding.verdict is AuditVerdict.UNEXPLAINED
    assert "rounded to 128.3 and then multiplied" in finding.note


def test_a_unit_that_the_log_can_be_converted_to_is_no_contradiction(log: ParsedLog) -> None:
    converted, other = (
        judge(Claim("a.log", text, unit=unit), log) for text, unit in (("2.000", "it/s"), ("41", "%"))
    )

    assert converted.note == "the log's number in it/s"
    assert "the table says %, the log counts images/s" in other.note
