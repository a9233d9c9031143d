"""The last line of ``trainmark run`` names why it exits with 1 where every run is fine."""

import sample_results as sample

from trainmark.cli.run_output import exit_reason
from trainmark.report import render_table


def test_unequal_work_is_named() -> None:
    assert exit_reason(sample.with_certificate()) == ""

    line = exit_reason(sample.with_certificate(equal=False))

    assert line.startswith("exit code 1: the frameworks do not do equal work on ")


def test_work_that_could_not_be_checked_is_named_with_its_reason() -> None:
    results = sample.with_certificate()
    (held,) = results.certificates
    lost = held.model_copy(update={"absent": {"jax": "timeout: it took longer than 120 s"}})

    line = exit_reason(results.model_copy(update={"certificates": (lost,)}))

    assert (
        f"it could not be checked whether jax does equal work on {held.model}: timeout: it took longer"
        in line
    )
    assert "--resume tries again" in line


def test_a_missing_environment_comes_before_the_check_of_equal_work_that_it_prevents() -> None:
    results = sample.unsupported("environment 'pytorch' is not created yet (trainmark env create pytorch)")

    assert exit_reason(results) == (
        "exit code 1: no case can run here: environment 'pytorch' is not created yet (trainmark env create pytorch)\n"
    )
    assert exit_reason(sample.with_certificate()) == ""


def test_a_reason_that_many_cases_share_is_printed_once() -> None:
    reason = "environment 'pytorch' is not created yet (trainmark env create pytorch)"

    table = render_table(sample.unsupported(reason))

    assert table.count(reason) == 1
    assert f"4 cases: unsupported: {reason}" in table
