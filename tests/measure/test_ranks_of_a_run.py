"""Rank times on one clock: windows, the slowest rank, the wait for it, the gradient exchange."""

from typing import Any

import pytest

from trainmark.measure.ranks import rank_times
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.outcome import NodeOutcome

SUMMARY: dict[str, Any] = {
    # The clock of the second node is an hour ahead.
    "rank_windows_at": [100.0, 100.002, 3700.001, 3700.004],
    "rank_windows_s": [10.0, 9.99, 9.98, 10.0],
    "apart": {
        "pass_s": [0.05, 0.05, 0.05, 0.065],
        "all_reduce_s": [0.019, 0.02, 0.018, 0.02],
        "all_reduce_bytes": 1 << 20,
    },
}
NODES = (
    NodeOutcome(node=0, host=LOCALHOST),
    NodeOutcome(node=1, host="b", clock_offset_s=3600.0, clock_error_s=0.0005),
)


def test_windows_of_hosts_with_different_clocks_are_on_one_clock() -> None:
    found = rank_times(SUMMARY, 100, 2, NODES, ("a", "b"))
    assert found is not None
    assert [rank.host for rank in found.ranks] == ["a", "a", "b", "b"]
    assert [rank.began_s for rank in found.ranks] == pytest.approx([0, 0.002, 0.001, 0.004])
    assert [rank.error_s for rank in found.ranks] == [0.0, 0.0, 0.0005, 0.0005]


def test_a_clock_that_moved_during_the_run_is_between_its_readings_before_and_after() -> None:
    moved = NODES[1].model_copy(update={"clock_offset_after_s": 3600.002, "clock_error_after_s": 0.0007})
    found = rank_times(SUMMARY, 100, 2, (NODES[0], moved))
    assert found is not None
    assert [rank.began_s for rank in found.ranks] == pytest.approx([0.0, 0.002, 0.0, 0.003])
    assert [rank.error_s for rank in found.ranks] == pytest.approx([0.0, 0.0, 0.0017, 0.0017])


def test_the_slowest_rank_has_the_longest_pass_and_the_others_wait_for_it() -> None:
    found = rank_times(SUMMARY, 100, 2, NODES, ("a", "b"))
    assert found is not None
    assert found.slowest == 3
    assert found.slower_by == pytest.approx(0.3)
    assert [rank.wait_s for rank in found.ranks] == pytest.approx([0.015, 0.015, 0.015, 0])
    assert found.waits == pytest.approx(0.15)


def test_a_pass_that_takes_longer_than_a_step_after_the_window_shows_no_wait() -> None:
    isolated = {**SUMMARY["apart"], "pass_s": [0.05, 0.05, 0.05, 0.157], "all_reduce_s": [0.11] * 4}
    found = rank_times({**SUMMARY, "apart": isolated}, 100, 2, NODES)
    assert found is not None
    assert found.all_reduce is not None
    # It was a share of 1.07 of a step, for which the ranks waited.
    assert (found.slowest, found.slower_by, found.waits) == (None, None, None)
    assert [(rank.pass_s, rank.wait_s) for rank in found.ranks][-1] == (0.157, None)
    assert found.all_reduce.share == 1.0


def test_a_pass_that_is_slower_outside_of_the_step_on_all_ranks_shows_that_none_waits() -> None:
    isolated = {**SUMMARY["apart"], "pass_s": [0.13, 0.13, 0.13, 0.131]}
    found = rank_times({**SUMMARY, "apart": isolated}, 100, 2, NODES)
    assert found is not None
    assert (found.slowest, found.waits) == (3, 0.0)


def test_an_all_reduce_is_reported_with_its_share_of_a_step() -> None:
    found = rank_times(SUMMARY, 100, 2, NODES)
    assert found is not None
    assert found.all_reduce is not None
    assert found.all_reduce.bytes == 1 << 20
    assert (found.all_reduce.seconds, found.all_reduce.share) == pytest.approx((0.02, 0.2))


def test_missing_pass_times_are_null_and_the_windows_stay() -> None:
    found = rank_times({**SUMMARY, "apart": {"pass_s": None, "all_reduce_s": [1.0]}}, 100, 2, NODES)
    assert found is not None
    assert (found.slowest, found.slower_by, found.waits, found.all_reduce) == (None, None, None, None)
    assert [rank.window_s for rank in found.ranks] == SUMMARY["rank_windows_s"]


def test_a_host_with_an_unknown_clock_is_not_taken_for_the_controller() -> None:
    found = rank_times(SUMMARY, 100, 2, (NODES[0], NodeOutcome(node=1, host="b")))
    assert found is not None
    assert [rank.error_s for rank in found.ranks] == [0.0, 0.0, None, None]


def test_a_clock_without_a_comparison_has_no_error() -> None:
    found = rank_times(SUMMARY, 100, 2, ())
    assert found is not None
    assert [rank.error_s for rank in found.ranks] == [0.0, 0.0, None, None]


@pytest.mark.parametrize(
    "summary", [{}, {"rank_windows_at": [1.0], "rank_windows_s": [1.0]}, {"rank_windows_s": [1.0, "x"]}]
)
def test_one_rank_or_missing_windows_give_no_rank_times(summary: dict[str, Any]) -> None:
    assert rank_times(summary, 100, 2, ()) is None
