"""The history of a case: its changes with the facts that changed with them, and how it is shown."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest

from trainmark.history import Fact, Point, analyse, analyse_case, render_history
from trainmark.report import Language, history_chart
from trainmark.schema.history import CaseHistory, ChangeCause, HistoryReport

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT, PLACE = 40, 25


def history(facts: Mapping[str, Fact], before: Mapping[str, Fact], shift: float = -0.05) -> CaseHistory:
    """Return the history of a case that changes by ``shift`` with its facts, from ``before`` to ``facts``."""
    values = np.random.default_rng(1).normal(0, 0.005, COUNT)
    values[PLACE:] += shift
    points = [
        Point(
            source=f"runs.db#{i}",
            at=START + timedelta(days=i),
            value=float(1000 * np.exp(value)),
            runs=3,
            host="node-a",
            unit="images/s",
            facts={**(facts if i >= PLACE else before), "git.commit": Fact(f"{i:07x}")},
        )
        for i, value in enumerate(values)
    ]
    return analyse_case("pytorch-resnet50", points)


@pytest.mark.parametrize(
    ("name", "cause", "named"),
    [
        ("framework.version", None, ChangeCause.REGRESSION),
        ("rule", ChangeCause.METHOD, ChangeCause.METHOD),
        ("accelerators.gpus.name", ChangeCause.HARDWARE, ChangeCause.HARDWARE),
    ],
)
def test_a_change_is_named_by_what_changed_with_it(
    name: str, cause: ChangeCause | None, named: ChangeCause
) -> None:
    found = history({name: Fact("new", cause)}, {name: Fact("old", cause)})

    (change,) = found.changes
    assert change.cause is named
    assert change.differences[0].fact == name
    assert (change.differences[0].before, change.differences[0].after) == ("old", "new")


def test_a_fact_that_differs_in_each_result_is_shown_at_the_place_of_the_change() -> None:
    (change,) = history({}, {}).changes

    assert change.cause is ChangeCause.REGRESSION
    (commit,) = change.differences
    assert (commit.before, commit.after) == (f"{change.index - 1:07x}", f"{change.index:07x}")


def test_a_faster_program_is_an_improvement_and_no_alarm() -> None:
    found = history({}, {}, shift=0.05)

    assert [change.cause for change in found.changes] == [ChangeCause.IMPROVEMENT]
    assert not found.changes[0].alarm


def test_few_results_are_not_analysed_and_say_so() -> None:
    found = analyse_case("case", [Point(source="#1", at=START, value=1.0, unit="images/s")] * 9)

    assert found.reason == "9 results, but a search for changes needs 10"


def test_results_in_different_units_are_not_analysed() -> None:
    points = [
        Point(source="#1", at=START, value=1.0, unit=unit) for unit in ["images/s"] * 6 + ["tokens/s"] * 6
    ]

    assert "different units" in str(analyse_case("case", points).reason)
    assert "different units" in str(analyse_case("case", points[5:7]).reason)


def test_hosts_that_come_once_and_go_are_one_machine() -> None:
    points = [
        Point(
            source=f"#{i}",
            at=START + timedelta(days=i),
            value=100.0,
            host=f"pod-{i}",
            kind="H100",
            unit="x/s",
        )
        for i in range(12)
    ]

    assert analyse_case("case", points).machines == ("H100",)


def report(**changes: object) -> HistoryReport:
    made = history({"framework.version": Fact("2.7")}, {"framework.version": Fact("2.6")})
    return analyse({}, ("runs.db",)).model_copy(update={"cases": (made,), **changes})


def test_the_text_names_the_change_its_place_and_the_facts() -> None:
    text = render_history(report())

    assert "regression  since runs.db#25, 2026-01-26 00:00 (before: runs.db#24)" in text
    assert "framework.version: 2.6 -> 2.7" in text
    assert "1 confirmed regression; changes below 1.5% do not count." in text


def test_cases_that_were_not_analysed_are_not_called_free_of_regressions() -> None:
    few = [Point(source="#1", at=START, value=1.0, unit="images/s")] * 2
    none = render_history(analyse({"few": few}, ("runs.db",)))
    some = render_history(report(cases=(*report().cases, analyse_case("few", few))))

    assert none.endswith(
        "\n\nNo case was analysed. To compare a few results: trainmark compare BEFORE AFTER\n"
    )
    assert "regression" not in none
    assert "1 confirmed regression in the 1 case that could be analysed; changes below 1.5%" in some


def test_an_alarm_before_the_given_day_does_not_count() -> None:
    assert len(report().alarms) == 1
    assert report(since=START + timedelta(days=35)).alarms == ()


def test_the_picture_is_well_formed_and_shows_names_as_text() -> None:
    made = history({}, {}).model_copy(update={"case": "<script>alert(1)</script> & more"})

    root = ElementTree.fromstring(history_chart(made, Language.EN).file())

    assert len(root.findall(".//{*}circle")) == COUNT
    assert root.find(".//{*}script") is None
    assert "regression" in "".join(root.itertext())
