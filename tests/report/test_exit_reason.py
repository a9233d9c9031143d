"""The last line of ``trainmark run`` names why it exits with 1 where every run is fine."""

import sample_results as sample

from trainmark.cli.run import _work_in_doubt


def test_unequal_work_is_named() -> None:
    assert _work_in_doubt(sample.with_certificate()) == ""

    line = _work_in_doubt(sample.with_certificate(equal=False))

    assert line.startswith("exit code 1: the frameworks do not do equal work on ")


def test_work_that_could_not_be_checked_is_named_with_its_reason() -> None:
    results = sample.with_certificate()
    (held,) = results.certificates
    lost = held.model_copy(update={"absent": {"jax": "timeout: it took longer than 120 s"}})

    line = _work_in_doubt(results.model_copy(update={"certificates": (lost,)}))

    assert (
        f"it could not be checked whether jax does equal work on {held.model}: timeout: it took longer"
        in line
    )
    assert "--resume tries again" in line
