"""When a case has enough runs, and which case runs next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.campaign import Progress
from trainmark.campaign.schedule import Attempt, Schedule, wants_another
from trainmark.words.outcome import Outcome
from trainmark.words.suite import Protocol

ADAPTIVE = Protocol.model_validate(
    {"name": "adaptive", "min_repeats": 3, "max_repeats": 6, "target_half_width": 0.02, "max_case_s": 100.0}
)
DLPERF = Protocol.model_validate("dlperf")


def ok(throughput: float, duration_s: float = 1.0) -> Attempt:
    return Attempt(Outcome.OK, throughput, duration_s)


def bad(outcome: Outcome, started: bool = True) -> Attempt:
    return Attempt(outcome, None, 1.0, started)


def test_a_fixed_protocol_wants_its_number_of_runs() -> None:
    assert [wants_another(DLPERF, [ok(100.0)] * n) for n in range(7)] == [True] * 5 + [False] * 2


def test_an_adaptive_case_ends_when_its_interval_is_narrow() -> None:
    assert wants_another(ADAPTIVE, [ok(100.0), ok(101.0)])
    assert not wants_another(ADAPTIVE, [ok(100.0), ok(100.1), ok(100.2)])
    assert wants_another(ADAPTIVE, [ok(100.0), ok(110.0), ok(120.0)])


def test_an_adaptive_case_ends_after_its_most_runs_and_its_most_seconds() -> None:
    wild = [ok(100.0), ok(200.0), ok(300.0)]
    assert not wants_another(ADAPTIVE, wild * 2)
    assert not wants_another(ADAPTIVE, [ok(100.0, 40.0), ok(200.0, 40.0), ok(300.0, 40.0)])


def test_what_another_run_would_only_say_again_ends_the_case() -> None:
    for outcome in (Outcome.OOM, Outcome.UNSUPPORTED, Outcome.INVALID):
        assert not wants_another(ADAPTIVE, [bad(outcome)])
    assert not wants_another(ADAPTIVE, [bad(Outcome.FAILED, started=False)])


def test_a_failure_or_a_timeout_may_be_chance_and_is_tried_again() -> None:
    for outcome in (Outcome.FAILED, Outcome.TIMEOUT):
        assert wants_another(ADAPTIVE, [bad(outcome)] * 2)
        assert not wants_another(ADAPTIVE, [bad(outcome)] * 3)
    assert wants_another(ADAPTIVE, [bad(Outcome.FAILED), ok(100.0), ok(100.0)]), "two runs have no interval"


def run_to_the_end(schedule: Schedule, attempt: Attempt) -> list[int]:
    order = []
    while (case := schedule.next()) is not None:
        order.append(case)
        schedule.add(attempt)
    return order


def test_the_cases_take_turns() -> None:
    assert run_to_the_end(Schedule(DLPERF, [[], [], []]), ok(1.0)) == [0, 1, 2] * 5


def test_after_a_resume_the_case_with_the_fewest_runs_catches_up_first() -> None:
    schedule = Schedule(DLPERF, [[ok(1.0)] * 3, [ok(1.0)] * 5, [ok(1.0)]])
    assert run_to_the_end(schedule, ok(1.0)) == [2, 2, 0, 2, 0, 2]


def test_the_standing_counts_what_is_certain_to_come() -> None:
    schedule = Schedule(ADAPTIVE, [[], [bad(Outcome.OOM)], [ok(100.0), ok(110.0), ok(120.0)]])
    assert schedule.progress == Progress(finished=4, at_least=4 + 3 + 1)
    schedule.add(bad(Outcome.OOM))
    assert schedule.progress == Progress(finished=5, at_least=6)


attempts = st.one_of(
    st.floats(50, 200).map(ok), st.sampled_from([Outcome.OOM, Outcome.FAILED, Outcome.TIMEOUT]).map(bad)
)


@given(st.lists(st.lists(attempts, max_size=4), max_size=5), st.lists(attempts, max_size=40))
def test_the_schedule_agrees_with_its_rule_at_every_step(
    done: list[list[Attempt]], coming: list[Attempt]
) -> None:
    schedule, plain = Schedule(ADAPTIVE, done), [list(runs) for runs in done]
    for attempt in coming:
        waiting = [case for case, runs in enumerate(plain) if wants_another(ADAPTIVE, runs)]
        expected = min(waiting, key=lambda case: (len(plain[case]), case), default=None)
        assert schedule.next() == expected
        least = sum(max(1, 3 - len(plain[case])) for case in waiting)
        finished = sum(map(len, plain))
        assert schedule.progress == Progress(finished, finished + least)
        if expected is None:
            return
        plain[expected].append(attempt)
        schedule.add(attempt)


@pytest.mark.timeout(60)
def test_ten_thousand_cases_take_turns_without_looking_at_them_all_each_time() -> None:
    """A look at every case for every run would take this test hours, not seconds."""
    order = run_to_the_end(Schedule(DLPERF, [[] for _ in range(10_000)]), ok(1.0))
    assert order == list(range(10_000)) * 5
