"""The ratio of a command's result to an earlier one, as ``run --baseline`` prints it."""

from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.run_output import compare_baseline
from trainmark.schema.case import case_of


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, "slower"), (1.0, "not distinguishable"), (2.0, "faster")]
)
def test_the_ratio_to_a_baseline_has_its_interval_and_verdict(factor: float, verdict: str) -> None:
    case = case_of(device="cpu")
    before, now = (
        sample.results([(case, sample.ok_runs(case, rate, 6))]) for rate in (1000.0, 1000.0 * factor)
    )

    holds, text = compare_baseline(Path("before"), before, now, Path("now"))

    (line, *_) = text.splitlines()
    assert line.startswith(f"ratio       {factor:.3f}  [")
    assert f"]   {verdict}, against before" in line
    assert holds is (verdict != "slower")
