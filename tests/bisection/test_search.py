"""The search for the first bad candidate: simulated programs with noise, skips, and the order of runs."""

import math
from collections.abc import Callable, Collection

import numpy as np
import pytest

import bisection as benchmark
from trainmark.bisection import Search
from trainmark.bisection.render import render_bisection
from trainmark.schema.bisection import (
    Bisection,
    Candidate,
    CandidateKind,
    Ending,
    MeasuredRun,
    Skipped,
    Verdict,
)


def state(count: int) -> Bisection:
    candidates = tuple(Candidate(name=str(i), label=f"commit {i}") for i in range(count))
    return Bisection(kind=CandidateKind.COMMIT, candidates=candidates, command=("python", "train.py"))


def program(
    culprit: int, slower: float = 0.05, spread: float = 0.005, seed: int = 1
) -> Callable[[int], float]:
    random = np.random.default_rng(seed)
    return lambda candidate: 1000 * math.exp(random.normal(0, spread) - slower * (candidate >= culprit))


def ended(search: Search, rate: Callable[[int], float], broken: Collection[int] = ()) -> Verdict:
    while (candidate := search.next_candidate()) is not None:
        if candidate in broken:
            search.add(Skipped(candidate=candidate, reason="make failed"))
        else:
            search.add(MeasuredRun(candidate=candidate, rate=rate(candidate), unit="x/s", directory=""))
    found = search.verdict()
    assert found is not None
    return found


@pytest.mark.parametrize("culprit", [1, 2, 20, 38, 39])
def test_the_first_bad_candidate_is_found_wherever_it_is(culprit: int) -> None:
    search = Search(state(40))

    found = ended(search, program(culprit))

    assert found.ending is Ending.FOUND
    assert found.culprits == (culprit,)
    assert found.confidence >= 0.98
    assert found.ratio == pytest.approx(0.95, abs=0.02)
    assert len(search.state.runs) <= 20


def test_good_and_bad_are_run_a_b_b_a_first_and_the_good_one_after_each_second_run() -> None:
    search = Search(state(40))

    ended(search, program(20, spread=0.002))

    order = [run.candidate for run in search.state.runs]
    assert order[:4] == [0, 39, 39, 0]
    assert all(0 in order[i : i + 3] for i in range(4, len(order) - 2))


def test_a_change_in_several_steps_is_named_as_that() -> None:
    search = Search(state(4))
    random = np.random.default_rng(1)
    slower = (0.0, 0.0, 0.7, 1.9)

    found = ended(search, lambda candidate: 1000 * math.exp(random.normal(0, 0.01) - slower[candidate]))
    search.end()

    assert found.between == (2,)
    assert "commit 2 is between good and bad: more than one candidate changed" in render_bisection(
        search.state
    )


@pytest.mark.parametrize("seed", range(5))
def test_one_change_leaves_nothing_between(seed: int) -> None:
    assert ended(Search(state(40)), program(20, spread=0.01, seed=seed)).between == ()


def test_a_faster_program_is_found_as_well() -> None:
    assert ended(Search(state(20)), program(7, slower=-0.1)).culprits == (7,)


def test_equal_ends_are_no_difference_and_nothing_else_is_run() -> None:
    search = Search(state(20))

    found = ended(search, program(99))

    assert found.ending is Ending.NO_DIFFERENCE
    assert {run.candidate for run in search.state.runs} == {0, 19}


def test_two_neighbours_need_no_candidate_between() -> None:
    found = ended(Search(state(2)), program(1))

    assert found.culprits == (1,)
    assert found.ending is Ending.FOUND


def test_a_candidate_that_cannot_be_built_is_skipped() -> None:
    search = Search(state(40))

    found = ended(search, program(27), broken={20, 21})

    assert found.culprits == (27,)
    assert search.skipped <= {20, 21}


def test_a_culprit_among_skipped_candidates_is_one_of_several() -> None:
    found = ended(Search(state(40)), program(27), broken={26, 27, 28})

    assert found.ending is Ending.ONLY_SKIPPED
    assert found.culprits == (26, 27, 28, 29)


def test_a_candidate_that_gives_no_number_twice_is_skipped() -> None:
    search = Search(state(3))
    rate = program(2)
    while (candidate := search.next_candidate()) is not None:
        number = None if candidate == 1 else rate(candidate)
        search.add(MeasuredRun(candidate=candidate, rate=number, unit="x/s", directory="", reason="failed"))

    assert search.skipped == {1}
    found = search.verdict()
    assert found is not None
    assert found.culprits == (1, 2)


def test_a_good_candidate_that_cannot_be_built_ends_the_search() -> None:
    found = ended(Search(state(10)), program(5), broken={0})

    assert found.ending is Ending.ONLY_SKIPPED


def test_a_disturbed_run_does_not_decide() -> None:
    plain = program(27)
    made = 0

    def rate(candidate: int) -> float:
        nonlocal made
        made += 1
        return plain(candidate) * (0.7 if made in (5, 9) else 1.0)

    assert ended(Search(state(40)), rate).culprits == (27,)


def test_a_search_continues_from_its_state() -> None:
    rate, whole = program(13, seed=3), Search(state(40))
    ended(whole, rate)
    half = Search(whole.state.model_copy(update={"runs": whole.state.runs[:7]}))

    assert half.next_candidate() == whole.state.runs[7].candidate


def test_simulations_name_the_culprit_with_less_than_half_the_runs_of_five_each() -> None:
    rows = [row.strip("| ").split(" | ") for row in benchmark.report(33, 60).splitlines()[2:]]
    ours, five = ({"right": float(row[1].rstrip("%")), "runs": float(row[4])} for row in rows)

    assert ours["right"] >= 95
    assert ours["runs"] <= five["runs"] / 2
