"""How far loaders work ahead, and that a window never silently counts what was loaded before it."""

import pickle
from itertools import islice
from multiprocessing import get_context
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.worker.core.feed import LoadedFeed, Loader
from trainmark.worker.core.outcomes import FAILED, RunError
from trainmark.worker.core.queues import (
    AHEAD,
    UNCOUNTED,
    Cut,
    RankLoading,
    SampleCounter,
    check_decoding,
    check_queues,
    in_parts,
    joined,
)
from trainmark.worker.core.task import Verified


@given(st.integers(1, 512), st.integers(0, 256), st.integers(1, 4))
def test_no_number_of_processes_has_more_than_four_batches_in_flight(
    batch: int, workers: int, tasks: int
) -> None:
    share = in_parts(batch, workers, tasks, min(tasks, 2))
    assert share.ahead <= AHEAD
    assert batch % share.in_batch == 0
    assert share.workers == workers or share.workers * share.tasks > AHEAD * batch - share.tasks
    assert bool(share.workers) == bool(workers)


def test_few_processes_make_whole_batches_as_users_have_it() -> None:
    assert in_parts(256, 2) == (2, 2, 1)
    assert in_parts(256, 64) == (64, 2, 32)


def test_parts_are_joined_to_the_batches_that_they_were_cut_from() -> None:
    batches = [list(range(start, start + 6)) for start in range(0, 60, 6)]
    parts = iter(Cut(batches, 3))
    assert list(joined(parts, 3, lambda some: [x for part in some for x in part])) == batches


def test_what_went_wrong_takes_the_place_of_the_batch_that_it_is_in() -> None:
    broken = RunError(FAILED, "a file")
    parts = iter([[1], [2], [3], broken, [5], [6]])
    assert list(islice(joined(parts, 2, lambda some: [*some[0], *some[1]]), 2)) == [[1, 2], broken]


def _add(produced: SampleCounter) -> None:
    for _ in range(500):
        produced.add()


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_processes_count_together_and_lose_nothing(way: Literal["fork", "spawn"]) -> None:
    produced = SampleCounter()
    context: Any = get_context(way)
    assert pickle.loads(pickle.dumps(produced)).count() == 0
    processes = [context.Process(target=_add, args=(produced,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert produced.count() == 1500


def rank(
    produced: int | None,
    steps: int = 100,
    begin: float = 4.0,
    waited: float = 0.0,
    first: float = 4.0,
    ahead: float = 4.0,
    batch: int = 8,
) -> RankLoading:
    """Return a loader that made ``produced`` samples in a window of 10 s; what is in flight is in batches."""

    def made(in_flight: float, taken: int) -> int:
        return UNCOUNTED if produced is None else round((in_flight + taken) * batch)

    at_begin = made(begin, 20)
    at_end = UNCOUNTED if produced is None else at_begin + produced
    waited_us = round(waited * 10_000_000)
    states = (made(first, 1), 1, at_begin, 20, at_end, 20 + steps)
    return RankLoading(round(ahead * 1000), *states, waited_us, 10_000_000, batch)


def codes(*ranks: RankLoading) -> list[str]:
    return [code for code, _ in check_queues(ranks).doubts]


def test_a_loader_process_that_is_killed_while_it_hands_a_batch_over_is_no_lost_rank() -> None:
    def batch(_number: int) -> Any:
        raise ConnectionResetError(104, "Connection reset by peer")

    feed = LoadedFeed(map(batch, range(1)), lambda batch: batch, Loader(8))

    with pytest.raises(RunError) as failure:
        feed.next()

    assert failure.value.outcome == FAILED
    assert (
        failure.value.reason
        == "a loader process ended: ConnectionResetError: [Errno 104] Connection reset by peer"
    )
    assert not failure.value.peer_lost


def test_a_window_that_counts_what_was_loaded_before_it_is_in_doubt() -> None:
    assert codes(rank(8 * 97, waited=0.3)) == ["queue-drained"]
    assert codes(rank(8 * 97)) == ["queue-drained"]
    assert codes(rank(800), rank(8 * 60, begin=40, first=50)) == ["queue-drained"]
    (doubt,) = check_queues([rank(8 * 97)]).doubts
    assert "trained on 800 samples in the window, and its loader made 776" in doubt[1]


def test_a_loader_that_made_what_was_taken_is_in_no_doubt() -> None:
    assert codes(rank(800, waited=0.9, begin=0.0)) == []
    assert codes(rank(8 * 99, waited=0.9, begin=1.0)) == []
    assert codes(rank(8 * 104, begin=0.0)) == []
    assert codes() == []


def test_the_batch_that_a_waiting_loader_only_begins_to_replace_is_no_doubt_in_a_short_window() -> None:
    assert codes(rank(8 * 9, steps=10)) == []
    # Nor is the queue full, or somebody waited: in ten steps a batch is a tenth of the number.
    assert codes(rank(8 * 9, steps=10, begin=2.0)) == ["queue-drained"]
    assert codes(rank(8 * 9, steps=10, waited=0.1)) == ["queue-drained"]


def test_a_loader_that_cannot_be_counted_is_in_doubt_where_its_queue_could_make_the_number() -> None:
    assert codes(rank(None, waited=0.5)) == ["queue-unknown"]
    assert codes(rank(None, waited=0.0)) == []
    assert codes(rank(None, waited=0.5, steps=200)) == []


def test_a_loader_that_counts_late_is_in_doubt_where_what_it_had_in_hand_could_make_the_number() -> None:
    late = rank(800, waited=0.5, steps=100)._replace(uncounted=24)
    assert codes(late) == ["queue-unknown"]
    assert codes(late._replace(uncounted=16)) == []
    assert codes(late._replace(waited_us=0)) == []
    assert "24 of 800 samples may have been loaded before it" in check_queues([late]).doubts[0][1]


def test_the_events_say_what_each_rank_made_and_took() -> None:
    said = check_queues([rank(720, begin=2.0), rank(None)]).data["loading"]
    assert said is not None
    assert (said["produced"], said["consumed"]) == ([720, None], [800, 800])
    assert said["in_flight_at_begin"] == [2.0, None]
    assert said["in_flight_at_end"] == [-8.0, None]
    assert check_queues([]).data == {"loading": None}


def test_files_that_nothing_decodes_are_counted_and_make_the_run_doubtful() -> None:
    assert check_decoding([0], []) == Verified({"unreadable": {"files": [0], "first": []}})

    found = check_decoding([2, 1], ["a.jpg", "a.jpg"])
    ((code, sentence),) = found.doubts

    assert code == "samples-unreadable"
    assert sentence.startswith("3 of the samples could not be decoded, a.jpg first: ")
    assert found.data["unreadable"] == {"files": [2, 1], "first": ["a.jpg"]}
