"""Published values against logs: the digits, the fixed catalogue, the corpus."""

import random
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import CORPUS, truth_of
from trainmark.errors import InputError
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import (
    AuditVerdict,
    Claim,
    audit,
    catalogue,
    find_rule,
    judge,
    measure_log,
    read_claims,
    rules_for,
)
from trainmark.measure.rules.auditing import summarise_findings
from trainmark.measure.rules.claims import parse_published
from trainmark.measure.rules.matching import reproduces, try_rules
from trainmark.programs import read_log, synthetic_log

_RULES = {
    ("F01_PPCLS", "yes"): "trimmed-skip-10",
    ("F02_DLL_PT_CNN", "yes"): "mean-skip-9",
    ("F03_DLL_TF_CNN", "yes"): "mean-last-25",
    ("F04_DLL_MX_CNN_mpirun", "yes"): "table",
    ("F05_PDNLP_BERT", "yes"): "trimmed-skip-10",
    ("F06m_DLL_PT_BERT_mpirun", "yes"): "summary",
    ("F07m_DLL_TF_BERT_mpirun", "yes"): "mean-skip-9",
    ("F08_PDNLP_TR_ANSI", "yes"): "trimmed-skip-5",
    ("F10_FAIRSEQ", "yes"): "mean-last-350",
    ("F11_PPSEG", "yes"): "mean-skip-5",
    ("F12_MMSEG", "yes"): "harmonic-skip-2",
}


@pytest.mark.parametrize("row", truth_of(CORPUS, lambda row: f"{row['format_id']}-{row['published_value']}"))
def test_every_verdict_of_the_audit_corpus_is_reproduced(row: dict[str, str]) -> None:
    claim = Claim(row["log_path"], row["published_value"], int(row["gpus"]), unit=row["unit"])

    (finding,) = audit([claim], CORPUS)

    assert (finding.verdict is AuditVerdict.REPRODUCED) == (row["matches"] == "yes")
    assert finding.value == pytest.approx(float(row["value_by_rule"]), abs=5.1e-5)
    assert finding.rule == _RULES.get((row["format_id"], row["matches"]))


@pytest.mark.parametrize(
    ("value", "published", "same"),
    [
        (4238.5378, "4238.53", True),
        (4238.5378, "4238.54", True),
        (4238.5378, "4238.5", True),
        (4238.5378, "4238.55", False),
        (255374.7643, "255375", True),
        (255374.7643, "255374", True),
        (2957.8, "2957.80", True),
        (21259.81, "21,259.81", True),
        (21259.81, "21 259.81", True),
        (3019.36138, "3019.362", False),
        (1320.9392079999998, "1320.939208", True),
    ],
)
def test_digits_are_compared_rounded_or_truncated(value: float, published: str, same: bool) -> None:
    number = parse_published(published)

    assert number is not None
    assert reproduces(value, number) is same


@given(value=st.floats(1.0, 1e6), decimals=st.integers(0, 4))
def test_a_printed_value_is_reproduced_by_its_own_value(value: float, decimals: int) -> None:
    assert reproduces(value, Decimal(f"{value:.{decimals}f}"))


@given(factor=st.floats(0.9, 1.1).filter(lambda f: abs(f - 1) > 1e-4))
@settings(max_examples=60, deadline=None)
def test_a_random_figure_of_seven_digits_is_not_reproduced(factor: float, noisy_log: Path) -> None:
    log = read_log(noisy_log)
    values = [result.value for rule in rules_for(log.format) if (result := rule.compute(log)).value]
    figure = round(max(values) * factor, 3)
    if any(abs(figure - value) < 0.002 for value in values):
        return

    assert judge(Claim("x", f"{figure:.3f}"), log).verdict is not AuditVerdict.REPRODUCED


@pytest.fixture(scope="module")
def noisy_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    times = [0.5 + 0.01 * ((7 * i) % 11) for i in range(150)]
    path = tmp_path_factory.mktemp("noisy") / "pytorch_gpu8_fp32_bs64.txt"
    path.write_text(synthetic_log("ngc-pytorch-convnets", SampleRun(times, gpus=8, batch_per_device=64)))
    return path


def test_few_digits_are_reported_as_weak_evidence(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    value = measure_log(log).value
    assert value is not None

    few = judge(Claim("x", f"{value:.0f}"), log)
    many = judge(Claim("x", f"{value:.4f}"), log)

    assert (few.verdict, many.verdict) == (AuditVerdict.REPRODUCED, AuditVerdict.REPRODUCED)
    assert "weak evidence" in few.note
    assert "weak evidence" not in many.note


def test_a_match_by_a_conventional_rule_is_reported_as_such(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    value = find_rule("median-skip-0").compute(log).value

    finding = judge(Claim("x", f"{value:.6f}"), log)

    assert (finding.verdict, finding.rule) == (AuditVerdict.REPRODUCED, "median-skip-0")
    assert "conventional" in finding.note


def test_a_value_in_the_range_of_the_log_without_a_rule_is_unexplained(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    value = find_rule("mean-skip-37").compute(log).value
    assert value is not None

    in_range = judge(Claim("x", f"{value + 0.0137:.4f}"), log)
    outside = judge(Claim("x", f"{value * 1.3:.4f}"), log)

    assert (in_range.verdict, outside.verdict) == (AuditVerdict.UNEXPLAINED, AuditVerdict.CONTRADICTED)
    assert "in that range" in in_range.note
    assert "no known mix-up" in outside.note


def test_a_value_of_one_device_is_a_mix_up_and_not_a_contradiction(noisy_log: Path) -> None:
    log = read_log(noisy_log)

    value = measure_log(log).value
    assert value is not None

    finding = judge(Claim("x", f"{value / 8:.4f}"), log)

    assert finding.verdict is AuditVerdict.UNEXPLAINED
    assert "one of 8 devices" in finding.note


def test_the_chance_of_a_verdict_matches_random_figures(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    value = measure_log(log).value
    assert value is not None
    tried, chance = try_rules(log), random.Random(1)
    figures = [Decimal(f"{value * chance.uniform(0.95, 1.05):.0f}") for _ in range(4000)]

    estimated = judge(Claim("x", f"{value:.0f}"), log).chance
    counted = sum(bool(tried.matching(figure)) for figure in figures) / len(figures)

    assert estimated is not None
    assert counted == pytest.approx(estimated, rel=0.4)


def test_rules_that_agree_are_all_named(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    mean = next(rule for rule in catalogue() if rule.name == "summary").compute(log).value

    finding = judge(Claim("x", f"{mean:.2f}"), log)

    assert finding.rule == "summary"


def test_a_table_that_contradicts_the_log_is_noted(noisy_log: Path) -> None:
    log = read_log(noisy_log)

    claim = Claim("x", f"{measure_log(log).value:.4f}", gpus=32, batch=256, unit="words/s")
    finding = judge(claim, log)

    assert judge(replace(claim, unit="images/s"), log).verdict is AuditVerdict.REPRODUCED
    assert finding.verdict is AuditVerdict.UNEXPLAINED
    assert "32 devices, the log says 8" in finding.note
    assert "batch 256 per device, the log says 64" in finding.note
    assert "words/s" in finding.note


def test_a_missing_log_is_unreadable_and_not_contradicted(tmp_path: Path) -> None:
    (finding,) = audit([Claim("nothing.log", "790.033")], tmp_path)

    assert finding.verdict is AuditVerdict.UNREADABLE
    assert "cannot be read" in finding.note


def test_a_published_oom_is_reproduced_by_an_oom(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("CUDA out of memory. Tried to allocate 2 GiB\n")
    (tmp_path / "b.log").write_text(synthetic_log("timm", SampleRun([0.5] * 40)))

    verdicts = [
        finding.verdict for finding in audit([Claim("a.log", "OOM"), Claim("b.log", "OOM")], tmp_path)
    ]

    assert verdicts == [AuditVerdict.REPRODUCED, AuditVerdict.CONTRADICTED]


@pytest.mark.parametrize("cell", ["TODO", "-", "", "nan", "0"])
def test_a_cell_without_a_figure_is_unreadable(cell: str, noisy_log: Path) -> None:
    assert judge(Claim("x", cell), read_log(noisy_log)).verdict is AuditVerdict.UNREADABLE


def test_a_table_that_mixes_rules_is_reported(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    values = [rule.compute(log) for rule in rules_for(log.format) if rule.name in ("summary", "mean-skip-9")]

    findings = [judge(Claim("x", f"{result.value:.2f}"), log) for result in values]

    assert "mixes values of" in summarise_findings(findings)[-1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file,published\na,1\n", ":1: no column 'log'"),
        ("log,published,gpus\na.log,1,eight\n", ":2: gpus is 'eight'"),
        ("log,published\n,1\n", ":2: the column 'log' is empty"),
    ],
)
def test_a_broken_table_is_an_input_error_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    table = tmp_path / "table.csv"
    table.write_text(text)

    with pytest.raises(InputError, match=reason):
        read_claims(table)


def test_every_rule_of_the_catalogue_names_its_publishers() -> None:
    assert all(rule.formula and rule.published_by for rule in catalogue())
    assert len({rule.name for rule in catalogue()}) == len(catalogue())


def test_truncated_digits_are_distinguished_from_rounded_ones(noisy_log: Path) -> None:
    log = read_log(noisy_log)
    value = next(rule for rule in catalogue() if rule.name == "mean-skip-9").compute(log).value
    assert value is not None
    rounded = Decimal(f"{value:.3f}")
    cut = Decimal(str(value)).quantize(Decimal("0.001"), ROUND_DOWN)
    digits = next(
        Decimal(1).scaleb(-places) for places in range(1, 9) if int(value * 10 ** (places + 1)) % 10 >= 5
    )
    cut_differs = Decimal(f"{value:.12g}").quantize(digits, ROUND_DOWN)

    assert "truncated" in judge(Claim("x", str(cut_differs)), log).note
    assert rounded == cut or "truncated" not in judge(Claim("x", str(rounded)), log).note


@pytest.mark.parametrize("share", [1e-4, -1e-4, 3e-3, -0.01, 0.05, -0.05])
@pytest.mark.parametrize(
    "row", truth_of(CORPUS, lambda row: row["format_id"], lambda row: row["matches"] == "yes")
)
def test_a_slightly_changed_published_value_is_not_reproduced(row: dict[str, str], share: float) -> None:
    published = Decimal(row["published_value"])
    moved = (published * Decimal(1 + share)).quantize(published)
    if abs(moved - published) <= Decimal(2).scaleb(int(published.as_tuple().exponent)):
        pytest.skip("the figure has too few digits to be moved by so little")

    (finding,) = audit([Claim(row["log_path"], str(moved))], CORPUS)

    assert finding.verdict is not AuditVerdict.REPRODUCED
    assert finding.deviation == pytest.approx(float(moved) / float(row["value_by_rule"]) - 1, abs=2e-6)
