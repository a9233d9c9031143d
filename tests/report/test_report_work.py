"""The report's table of what was worked on: each counter by its name, and the share of the measured peak."""

from pathlib import Path

import pytest
import sample_results as sample

from trainmark.insight import find
from trainmark.report import Language, render_markdown
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.results import Results


def reported(results: Results, folder: Path) -> str:
    sample.write_runs(folder, results)
    return render_markdown(results, folder, Language.EN)


def counting(results: Results, **changes: object) -> Results:
    """Return the results, every measurement with these values."""
    cases = []
    for case in results.cases:
        runs = [
            run.model_copy(update={"measurement": run.measurement.model_copy(update=changes)})
            if run.measurement
            else run
            for run in case.runs
        ]
        cases.append(case.model_copy(update={"runs": tuple(runs)}))
    return results.model_copy(update={"cases": tuple(cases)})


def test_tokens_stand_with_padding_and_without_and_the_share_by_its_convention(tmp_path: Path) -> None:
    work = {"sequences": 1000, "tokens": 128_000, "tokens_without_padding": 96_000}
    results = counting(sample.one_case(), work=work, window_s=10.0, mfu={"counted": 0.25, "6N+12LHQT": 0.31})
    text = reported(results, tmp_path)
    (head,) = [line for line in text.splitlines() if "tokens without padding/s" in line]
    assert [word.strip() for word in head.strip("|").split("|")][1:] == [
        "sequences/s",
        "tokens/s",
        "tokens without padding/s",
        "MFU (counted)",
        "MFU (6N+12LHQT)",
    ]
    row = text.splitlines()[text.splitlines().index(head) + 2]
    assert [word.strip() for word in row.strip("|").split("|")][1:] == [
        "100.0", "12800", "9600", "25.0 %", "31.0 %",
    ]  # fmt: skip


def test_the_roofline_has_a_column_where_it_is_known(tmp_path: Path) -> None:
    results = counting(
        sample.one_case(), work={"images": 1000}, window_s=10.0, mfu={"counted": 0.25}, roofline=0.381
    )
    text = reported(results, tmp_path)
    assert "| MFU (counted) | share of the roofline |" in text
    assert "25.0 % | 38.1 % |" in text


def test_what_is_in_doubt_is_marked_here_too(tmp_path: Path) -> None:
    work = {"sequences": 1000, "tokens": 128_000}
    results = counting(sample.one_case(), work=work, window_s=10.0, mfu={"counted": 0.25})
    (case,) = results.cases
    doubt = Suspicion(code="cpu-shared", sentence="others took the cores", about=About.MACHINE)
    runs = tuple(run.model_copy(update={"suspicions": (doubt,)}) for run in case.runs)
    text = reported(results.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)}), tmp_path)
    assert "100.0† | 12800† | 25.0 %† |" in text


def test_a_peak_that_was_disturbed_makes_no_share_higher(tmp_path: Path) -> None:
    results = counting(sample.one_case(3), work={"images": 1000}, window_s=10.0)
    (case,) = results.cases
    measured = [run.measurement for run in case.runs if run.measurement]
    reported_of = [(0.4, 1e12), (0.8, 5e11), (0.8, 5e11)]
    runs = tuple(
        run.model_copy(
            update={
                "measurement": one.model_copy(update={"mfu": {"counted": mfu}, "peak_operations_per_s": peak})
            }
        )
        for run, one, (mfu, peak) in zip(case.runs, measured, reported_of, strict=True)
    )
    text = reported(results.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)}), tmp_path)
    assert "100.0 | 40.0 % |" in text


@pytest.mark.parametrize("work", [{}, {"images": 1000}])
def test_of_one_counter_and_no_peak_there_is_no_such_table(work: dict[str, int], tmp_path: Path) -> None:
    assert "MFU" not in reported(counting(sample.one_case(), work=work), tmp_path)


def test_a_run_that_did_more_than_the_peak_has_no_share_and_the_peak_is_reported_as_too_low(
    tmp_path: Path,
) -> None:
    results = counting(sample.one_case(), work={"images": 1000}, window_s=10.0, peak_operations_per_s=1e9)
    text = reported(results, tmp_path)
    assert "a run exceeded the measured peak, so that peak is too low and no share is given" in text


def test_of_a_case_without_memory_the_largest_batch_that_fits_is_reported() -> None:
    results = sample.two_frameworks()
    (found,) = find(results).fitting
    assert (found.batch, "b160-2n8g" in found.case, "b128-2n8g" in found.by) == (128, True, True)

    # Not what fitted on other hardware.
    (case,) = [one for one in results.cases if one.id == found.by]
    here, there = sample.MANIFEST, sample.manifest({"cpu": {**sample.NODE["cpu"], "model": "another"}})
    cases = tuple(
        one.model_copy(update={"runs": tuple(run.model_copy(update={"manifest": key}) for run in one.runs)})
        for one in results.cases
        for key in ["there" if one is case else "here"]
    )
    separate = results.model_copy(update={"cases": cases, "manifests": {"here": here, "there": there}})
    assert find(separate).fitting == ()


def test_the_report_says_which_batch_fits(tmp_path: Path) -> None:
    assert "out of memory; the largest batch per device known to fit here is 128" in reported(
        sample.two_frameworks(), tmp_path
    )
