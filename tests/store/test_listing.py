"""Lists of stored results: parts, filters, values of axes and changes, on every database."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

sys.path.append(str(Path(__file__).parents[1] / "report"))

import sample_results as sample

from trainmark.store import (
    Store,
    axis_values,
    last_run,
    list_results,
    rebuilt_suite,
    runs_after,
)


@pytest.fixture
def store(url: URL) -> Iterator[Store]:
    """Return a database with four campaigns, one of a program whose model is unknown."""
    opened = Store(url)
    samples = (sample.ngc_v100(), sample.two_units(), sample.cluster(), sample.foreign_program())
    for name, found in zip("abcd", samples, strict=True):
        results = found.model_copy(update={"suite": name})
        opened.put(results, rebuilt_suite(results), f"/nonexistent/{results.suite}")
    yield opened
    opened.close()


def test_parts_of_the_list_are_the_whole_list_newest_first(store: Store) -> None:
    total = list_results(store, {}, 0, 1).total
    parts = [row for first in range(0, total, 7) for row in list_results(store, {}, first, 7).rows]
    assert len(parts) == len(set(parts)) == total
    assert [row.campaign for row in parts] == sorted((row.campaign for row in parts), reverse=True)
    assert list_results(store, {}, total, 7).rows == ()


def test_every_value_of_every_axis_filters_the_list_into_parts(store: Store) -> None:
    total = list_results(store, {}, 0, 1).total
    for axis, values in axis_values(store).items():
        counts = [list_results(store, {axis: value}, 0, 1).total for value in values]
        assert all(counts), axis
        assert sum(counts) == total, axis


def test_an_unknown_model_is_named_by_its_program(store: Store) -> None:
    models = axis_values(store)["model"]
    assert "word_language_model" in models
    assert "unknown" not in models
    assert list_results(store, {"model": "word_language_model"}, 0, 9).total == 2


@pytest.mark.parametrize("value", ["", "nothing", "' or 1=1 --", "\0", "1e999", "7 (7n", "-1", "99999999999"])
def test_an_unknown_value_matches_nothing(value: str, store: Store) -> None:
    for axis in axis_values(store):
        assert list_results(store, {axis: value}, 0, 9).total == 0


def test_a_change_of_a_run_is_a_new_run(store: Store) -> None:
    before = last_run(store)
    assert len(runs_after(store, 0)) == len({run.id for run in runs_after(store, 0)})
    assert runs_after(store, before) == []
    results = sample.one_case(3)
    store.put(results, rebuilt_suite(results), "/nonexistent/one")
    new = runs_after(store, before)
    assert [run.case_id for run in new] == [results.cases[0].id] * 3
    assert last_run(store) == new[-1].id
