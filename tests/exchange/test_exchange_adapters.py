"""Rows for the exchange formats out of logs and out of a suite's results."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from trainmark.errors import InputError
from trainmark.logs import Facts, ParsedLog, Status
from trainmark.measure.rules import RuleResult
from trainmark.report.exchange import dlperf_json, row_from_log, rows_from_results
from trainmark.schema.case import Case, case_of
from trainmark.schema.measurement import Parameters
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.results import CaseResult, Results, RunResult
from trainmark.schema.suite import Protocol, ProtocolName
from trainmark.tasks.image_classification import Layout

FACTS = Facts(model="resnet50_v1.5", precision=Precision.AMP_FP16, nodes=4, gpus=32, batch_per_device=224)
LOG = ParsedLog("4n8g/r50_b224_amp_1.log", Status.OK, unit="images/s", facts=FACTS)


def test_a_log_with_a_number_makes_a_row() -> None:
    row = row_from_log(LOG, RuleResult("window", 24734.22, Status.OK), repeat=2)

    assert (row.model, row.precision, row.batch_per_device) == ("ResNet50V1.5", "amp", 224)
    assert (row.topology, row.speed, row.unit, row.repeat) == ("4n8g", 24734.22, "images/s", 2)


def test_the_two_mixed_precisions_have_different_names() -> None:
    other = replace(LOG, facts=replace(FACTS, precision=Precision.AMP_BF16))
    rows = [row_from_log(log, RuleResult("window", 1.0, Status.OK)) for log in (LOG, other)]

    assert [row.precision for row in rows] == ["amp", "amp_bf16"]
    assert len(dlperf_json(rows)) == 2


def test_a_log_without_a_number_makes_a_row_without_one() -> None:
    assert row_from_log(LOG, RuleResult("window", None, Status.OOM)).speed is None


def test_a_log_without_its_devices_is_refused_with_a_remedy() -> None:
    silent = replace(LOG, facts=replace(FACTS, gpus=None, batch_per_device=None))

    with pytest.raises(InputError, match="does not state its batch_per_device, gpus; add the flag for it"):
        row_from_log(silent, RuleResult("window", 1.0, Status.OK))


def run(repeat: int, outcome: Outcome) -> RunResult:
    return RunResult(
        repeat=repeat,
        outcome=outcome,
        reason=None if outcome is Outcome.OK else "it failed",
        started_at=None,
        duration_s=None,
        directory=f"runs/x/{repeat}",
        log=None,
        commands=(),
        measurement=None,
        suspicions=(),
        parameters=Parameters(),
        telemetry=(),
        manifest=None,
    )


def results(*cases: tuple[Case, tuple[Outcome, ...]]) -> Results:
    return Results(
        trainmark_version="0",
        generated_at=datetime(2026, 1, 1, tzinfo=UTC),
        suite="s",
        description="",
        protocol=Protocol.model_validate(ProtocolName.DLPERF.value),
        command="trainmark run s.yaml",
        complete=True,
        cases=tuple(
            CaseResult(
                id=case.id,
                case=case,
                outcome=outcomes[0],
                reason="x",
                estimate=None,
                speedup=None,
                runs=tuple(run(n, outcome) for n, outcome in enumerate(outcomes, start=1)),
            )
            for case, outcomes in cases
        ),
        manifests={},
    )


def test_a_failed_run_of_a_suite_is_a_row_without_a_number() -> None:
    rows = rows_from_results(results((case_of(batch_per_device=64), (Outcome.OOM, Outcome.FAILED))))

    assert [(row.repeat, row.speed, row.unit) for row in rows] == [(1, None, None), (2, None, None)]


def test_a_run_that_was_never_started_has_no_row() -> None:
    assert (
        rows_from_results(
            results((case_of(), (Outcome.UNSUPPORTED,)), (case_of(nodes=2), (Outcome.SKIPPED,)))
        )
        == ()
    )


def test_cases_that_differ_on_an_axis_without_a_field_are_separate_rows() -> None:
    rows = rows_from_results(
        results((case_of(), (Outcome.FAILED,)), (case_of(layout=Layout.NHWC), (Outcome.FAILED,)))
    )

    assert [row.variant for row in rows] == [(("layout", "nchw"),), (("layout", "nhwc"),)]
    assert sorted(dlperf_json(rows)) == ["ResNet50V1.5_b32_fp32_nchw", "ResNet50V1.5_b32_fp32_nhwc"]
