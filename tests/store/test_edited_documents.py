"""A results.json that was edited by hand is refused, and says what contradicts what."""

import copy
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainmark.errors import InputError
from trainmark.store import read_results

RESULTS = Path(__file__).parents[2] / "docs" / "results"
STORED = sorted(path.parent.name for path in RESULTS.glob("*/results.json"))

Document = Any
Edit = Callable[[Document], None]


def case_of(document: Document) -> Any:
    """Return the first case that has three runs with a number."""
    return next(
        case
        for case in document["cases"]
        if case["estimate"] and sum(run["measurement"] is not None for run in case["runs"]) >= 3
    )


def measured(document: Document) -> list[Any]:
    return [run["measurement"] for run in case_of(document)["runs"] if run["measurement"]]


def again(document: Document) -> None:
    """Write the estimate that the edited runs give."""
    rates = [one["throughput"] for one in measured(document)]
    case_of(document)["estimate"] |= {
        "n": len(rates),
        "median": statistics.median(rates),
        "mean": statistics.fmean(rates),
        "minimum": min(rates),
        "maximum": max(rates),
        "std": statistics.stdev(rates),
    }


def scale(document: Document, *keys: str, by: float) -> None:
    for one in measured(document):
        for key in keys:
            one[key] *= by


def throughput_of_one_run(document: Document) -> None:
    measured(document)[0]["throughput"] *= 1.1


def throughputs_and_estimate(document: Document) -> None:
    scale(document, "throughput", by=1.1)
    again(document)


def throughputs_windows_and_estimate(document: Document) -> None:
    scale(document, "throughput", by=1.5)
    scale(document, "window_s", by=1 / 1.5)
    again(document)


def samples_throughputs_and_estimate(document: Document) -> None:
    scale(document, "throughput", "samples", by=2)
    again(document)


def steps(document: Document) -> None:
    scale(document, "measured_steps", by=2)


def step_times(document: Document) -> None:
    for one in measured(document):
        one["step_times"]["mean"] /= 2


def of_estimate(**changes: float) -> Edit:
    def edit(document: Document) -> None:
        case_of(document)["estimate"] |= changes

    return edit


def median_alone(document: Document) -> None:
    found = case_of(document)["estimate"]
    found["median"] = (found["median"] + found["maximum"]) / 2


def mean_alone(document: Document) -> None:
    case_of(document)["estimate"]["mean"] *= 1.01


def deviation_alone(document: Document) -> None:
    case_of(document)["estimate"]["std"] /= 10


def narrower_interval(document: Document) -> None:
    found = case_of(document)["estimate"]
    middle, ends = found["median"], found["interval"]
    ends |= {"low": middle - (middle - ends["low"]) / 10, "high": middle + (ends["high"] - middle) / 10}


def interval_elsewhere(document: Document) -> None:
    found = case_of(document)["estimate"]
    found["interval"] |= {"low": found["median"] * 1.1, "high": found["median"] * 1.2}


def again_of_fewer(document: Document) -> None:
    case = document["cases"][0]
    rates = [run["measurement"]["throughput"] for run in case["runs"]]
    case["estimate"] |= {
        "n": len(rates),
        "median": statistics.median(rates),
        "mean": statistics.fmean(rates),
        "minimum": min(rates),
        "maximum": max(rates),
        "std": statistics.stdev(rates),
        "interval": None,
    }


def run_twice(document: Document) -> None:
    runs = case_of(document)["runs"]
    runs.append(copy.deepcopy(runs[0]))
    again(document)


def copied_run(document: Document) -> None:
    runs = case_of(document)["runs"]
    other = copy.deepcopy(runs[0])
    other["repeat"] = len(runs) + 1
    other["directory"] = other["directory"].rpartition("/")[0] + f"/{len(runs) + 1}"
    runs.append(other)
    again(document)


def copied_run_in_its_folder(document: Document) -> None:
    runs = case_of(document)["runs"]
    other = copy.deepcopy(runs[0])
    other["repeat"] = len(runs) + 1
    runs.append(other)
    again(document)


def out_of_memory(document: Document) -> None:
    case_of(document)["runs"][0]["outcome"] = "oom"


def negative(document: Document) -> None:
    measured(document)[0]["throughput"] *= -1


def doubt_removed(document: Document) -> None:
    run = next(run for case in document["cases"] for run in case["runs"] if run["suspicions"])
    run["suspicions"] = []


def of_case(**changes: object) -> Edit:
    def edit(document: Document) -> None:
        case_of(document)["case"] |= changes

    return edit


def larger_batch_everywhere_but_in_the_report(document: Document) -> None:
    case = case_of(document)
    old, new = case["id"], case["id"].replace("-b256-", "-b512-")
    case["case"]["batch_per_device"] = 512
    case["id"] = new
    for run in case["runs"]:
        run["directory"] = run["directory"].replace(old, new)
    document["findings"] = None


def other_id(document: Document) -> None:
    case_of(document)["id"] += "x"


def other_unit(document: Document) -> None:
    for one in measured(document):
        one["unit"] = "tokens/s"


def runs_exchanged(document: Document) -> None:
    one, other, *_ = document["cases"]
    one["runs"], other["runs"] = other["runs"], one["runs"]


def case_twice(document: Document) -> None:
    document["cases"].append(copy.deepcopy(document["cases"][0]))


def ratio_of_findings(document: Document) -> None:
    document["findings"]["ratios"][0]["ratio"]["value"] *= 2


def unknown_manifest(document: Document) -> None:
    case_of(document)["runs"][0]["manifest"] = "sha256:0"


def wait_of_more_than_all(document: Document) -> None:
    measured(document)[0]["data_wait"] = 1.5


def gpu_busier_than_possible(document: Document) -> None:
    case_of(document)["runs"][0]["telemetry"]["gpus"][0]["utilisation_mean"] = 1.5


def energy_of_another_rate(document: Document) -> None:
    run = case_of(document)["runs"][0]
    rate = run["measurement"]["throughput"]
    run["energy"] = {
        "source": "gpus",
        "joules": 100.0,
        "watts": 700.0,
        "per_unit_j": 700.0 / rate / 2,
        "unit": "image",
        "devices": 1,
    }


def suite_of_another_file(document: Document) -> None:
    document["suite"] = "../x"


def certificate_of_another_model(document: Document) -> None:
    document["certificates"][0]["model"] = "other"


def unknown_value_of_a_trial(document: Document) -> None:
    case = document["cases"][0]
    case["trials"] = [
        {
            "axes": {"layout": "nwhc"},
            "outcome": "ok",
            "reason": None,
            "throughput": 1.0,
            "unit": "images/s",
            "spoiled": False,
        }
    ]


EDITS: dict[str, tuple[Edit, str]] = {
    "throughput of one run": (throughput_of_one_run, "contradicts its own window: .* images in"),
    "throughputs, estimate": (throughputs_and_estimate, "contradicts its own window: .* images in"),
    "throughputs, windows, estimate": (throughputs_windows_and_estimate, "cannot contain 100 steps"),
    "samples, throughputs, estimate": (
        samples_throughputs_and_estimate,
        "its 100 steps are 25600 samples, it has 51200",
    ),
    "steps": (steps, "cannot contain 200 steps"),
    "step times": (step_times, "its 100 steps took"),
    "median": (median_alone, "contradicts its runs: it is given as"),
    "mean": (mean_alone, "its mean is given as"),
    "deviation": (deviation_alone, "its standard deviation is given as"),
    "number of runs": (of_estimate(n=10), "the median of 10 runs"),
    "interval narrowed": (narrower_interval, "its interval is given as"),
    "interval moved": (interval_elsewhere, "its interval is given as"),
    "run twice": (run_twice, "run 1 counts 2 times"),
    "run copied": (copied_run, "runs 1 and 4 started at the same moment"),
    "run copied, folder kept": (copied_run_in_its_folder, "its folder is runs/"),
    "outcome": (out_of_memory, "its outcome is oom, but it has a throughput"),
    "negative": (negative, "contradicts its own window"),
    "doubt removed": (doubt_removed, "its doubt two-levels is in the findings alone"),
    "batch": (of_case(batch_per_device=512), "has the axes of .*-b512-"),
    "precision": (of_case(precision="bf16"), "has the axes of .*-bf16-"),
    "devices": (of_case(devices_per_node=8), "has the axes of .*-1n8g-"),
    "batch everywhere": (
        larger_batch_everywhere_but_in_the_report,
        "its program reported 256 as its batch per device, the case has 512",
    ),
    "id": (other_id, "has the axes of"),
    "unit": (other_unit, "its program counts images/s, its throughput is in tokens/s"),
    "runs exchanged": (runs_exchanged, "its folder is runs/"),
    "case twice": (case_twice, "is in it 2 times"),
    "ratio of the findings": (ratio_of_findings, "the finding real-to-synthetic of .* but the medians give"),
    "manifest": (unknown_manifest, "its manifest sha256:0.* is not in the document"),
    "data wait": (wait_of_more_than_all, "data_wait: Input should be less than or equal to 1"),
    "utilisation": (gpu_busier_than_possible, "utilisation_mean: Input should be less than or equal to 1"),
    "suite": (suite_of_another_file, "'../x' is not the name of a suite"),
    "trial": (unknown_value_of_a_trial, "the fastest trial of .* has no such value: 'nwhc'"),
    "energy": (energy_of_another_rate, "700 W at .* images/s are not"),
}


@pytest.fixture(scope="module")
def text() -> str:
    return (RESULTS / "h200" / "results.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_document_is_refused_with_the_contradiction(name: str, text: str, tmp_path: Path) -> None:
    edit, reason = EDITS[name]
    document = json.loads(text)
    edit(document)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))

    with pytest.raises(InputError, match=reason) as raised:
        read_results(path)

    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", STORED)
def test_a_stored_document_is_read(name: str) -> None:
    assert read_results(RESULTS / name / "results.json").cases


def test_a_certificate_of_a_model_that_no_case_trains_is_refused(tmp_path: Path) -> None:
    document = json.loads((RESULTS / "equal-work" / "results.json").read_text(encoding="utf-8"))
    certificate_of_another_model(document)
    (tmp_path / "results.json").write_text(json.dumps(document))

    with pytest.raises(InputError, match="it has a certificate of other, which no case trains"):
        read_results(tmp_path / "results.json")
