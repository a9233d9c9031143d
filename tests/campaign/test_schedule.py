"""When a case has enough runs, and which case runs next."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.campaign import Progress
from trainmark.campaign.schedule import Attempt, Schedule, count_repeats, ended_by, wants_another
from trainmark.measure import estimate
from trainmark.schema.measurement import Sampling
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import EndedBy
from trainmark.schema.suite import Protocol

ADAPTIVE = Protocol.model_validate(
    {"name": "adaptive", "min_repeats": 3, "max_repeats": 7, "target_half_width": 0.02, "max_case_s": 100.0}
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
    assert wants_another(ADAPTIVE, [ok(100.0), ok(100.2), ok(100.4)]), (
        "3 runs must be nearer: they are so by luck"
    )
    assert not wants_another(ADAPTIVE, [ok(100.0), ok(100.2), ok(100.4), ok(100.5)])
    assert wants_another(ADAPTIVE, [ok(100.0), ok(110.0), ok(120.0)])


def test_runs_whose_windows_differ_in_steps_are_never_narrow_enough() -> None:
    near = [Attempt(Outcome.OK, 100.0 + n / 10, 1.0, steps=100 if n else 70) for n in range(3)]
    assert wants_another(ADAPTIVE, near)
    assert ended_by(ADAPTIVE, near + [near[1]] * 4) is EndedBy.MAXIMUM


def test_an_adaptive_case_ends_after_its_most_runs_and_its_most_seconds() -> None:
    wild = [ok(100.0), ok(200.0), ok(300.0)]
    assert wants_another(ADAPTIVE, wild * 2)
    assert not wants_another(ADAPTIVE, [*wild * 2, ok(150.0)])
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
    order = run_to_the_end(Schedule(DLPERF, "abc", [[], [], []]), ok(1.0))
    passes = [tuple(order[at : at + 3]) for at in range(0, 15, 3)]
    assert all(sorted(one) == [0, 1, 2] for one in passes)
    assert len(set(passes)) > 1, "heat that is carried over must not fall on the same case each time"


def test_the_order_is_the_seeds_and_the_suites_where_there_is_none() -> None:
    def order(seed: int | None) -> list[int]:
        protocol = DLPERF.model_copy(update={"order_seed": seed})
        return run_to_the_end(Schedule(protocol, "abcdef", [[]] * 6), ok(1.0))

    assert order(None) == [0, 1, 2, 3, 4, 5] * 5
    assert order(7) == order(7)
    assert order(7) != order(8)


@pytest.mark.parametrize("seed", [None, 7])
def test_the_next_run_is_foreseen_unless_a_case_ends_early(seed: int | None) -> None:
    three = ADAPTIVE.model_copy(update={"max_repeats": 3, "order_seed": seed})
    schedule = Schedule(three, ["a", "b", "c"], [[], [ok(100.0)], []])
    foreseen = schedule.next()
    while (case := schedule.next()) is not None:
        assert case == foreseen
        foreseen = schedule.likely_next()
        schedule.add(ok(100.0 + case))
    assert foreseen is None
    schedule = Schedule(three, ["a", "b"], [[], []])
    schedule.next()
    schedule.add(bad(Outcome.OOM))
    assert (schedule.next(), schedule.likely_next()) in (2 * (0,), 2 * (1,))


def test_a_resumed_campaign_goes_on_in_the_same_order() -> None:
    whole = run_to_the_end(Schedule(DLPERF, "abcd", [[]] * 4), ok(1.0))
    for stopped in range(len(whole)):
        done = [[ok(1.0)] * whole[:stopped].count(case) for case in range(4)]
        assert run_to_the_end(Schedule(DLPERF, "abcd", done), ok(1.0)) == whole[stopped:]


def test_what_ended_a_case_is_reported() -> None:
    near, separate = [ok(100.0), ok(100.1), ok(100.2)], [ok(100.0 + 5 * n) for n in range(7)]
    assert ended_by(ADAPTIVE, near) is EndedBy.TARGET
    assert ended_by(ADAPTIVE, [ok(100.0)] * 3) is EndedBy.EQUAL_RUNS
    assert ended_by(ADAPTIVE, separate) is EndedBy.MAXIMUM
    assert ended_by(ADAPTIVE, [ok(100.0, 60.0), ok(120.0, 60.0), ok(110.0)]) is EndedBy.TIME
    assert ended_by(ADAPTIVE, [bad(Outcome.OOM)]) is EndedBy.OUTCOME
    assert ended_by(DLPERF, [ok(1.0)] * 5) is EndedBy.FIXED
    assert ended_by(ADAPTIVE, near[:2]) is None


def test_a_case_says_what_more_runs_and_what_dlperf_would_have_given() -> None:
    runs = [Attempt(Outcome.OK, 100.0 + 2 * (n % 4), 10.0, step_s=0.05) for n in range(7)]
    found = count_repeats(ADAPTIVE, runs, estimate([a.throughput or 0 for a in runs], Sampling.WAITED))
    assert (found.ended_by, found.runs, found.spent_s, found.target) == (EndedBy.MAXIMUM, 7, 70.0, 0.02)
    assert found.half_width is not None
    assert found.twice is not None
    assert found.twice.half_width == pytest.approx(found.half_width / 2**0.5)
    assert found.to_target is not None
    assert found.to_target.runs == math.ceil(7 * (found.half_width / 0.02) ** 2)
    assert found.dlperf is not None
    assert (found.dlperf.runs, found.dlperf.seconds) == (5, 50.0), (
        "7 runs of 120 steps are time for dlperf's 5"
    )


def test_runs_to_expect_are_more_than_there_are_while_those_are_not_enough() -> None:
    """Three runs look close together by luck more often than the interval says, and are enough only when very close."""
    attempts = [ok(1000.0), ok(1002.0), ok(1004.0)]
    protocol = ADAPTIVE.model_copy(update={"target_half_width": 0.01})
    found = count_repeats(protocol, attempts, estimate([1000.0, 1002.0, 1004.0], Sampling.WAITED))
    assert found.half_width is not None
    assert found.half_width < 0.01
    assert found.ended_by is None
    assert found.to_target is not None
    assert found.to_target.runs > 3


def test_what_the_machine_spoiled_is_in_no_expectation() -> None:
    runs = [ok(100.0), ok(100.1), ok(100.2), Attempt(Outcome.OK, 10.0, 1.0, spoiled=True)]
    found = count_repeats(ADAPTIVE, runs, estimate([100.0, 100.1, 100.2], Sampling.WAITED))
    assert (found.ended_by, found.runs, found.spoiled) == (EndedBy.TARGET, 3, 1)


def test_after_a_resume_the_case_with_the_fewest_runs_catches_up_first() -> None:
    schedule = Schedule(DLPERF, "abc", [[ok(1.0)] * 3, [ok(1.0)] * 5, [ok(1.0)]])
    first, second, *rest = run_to_the_end(schedule, ok(1.0))
    assert (first, second, sorted(rest[:2]), sorted(rest[2:])) == (2, 2, [0, 2], [0, 2])


def test_the_standing_counts_what_is_certain_to_come() -> None:
    schedule = Schedule(ADAPTIVE, "abc", [[], [bad(Outcome.OOM)], [ok(100.0), ok(110.0), ok(120.0)]])
    assert schedule.progress == Progress(finished=4, at_least=4 + 3 + 1)
    schedule.add(bad(Outcome.OOM))
    assert schedule.progress == Progress(finished=5, at_least=6)


IN_ORDER = ADAPTIVE.model_copy(update={"order_seed": None})
attempts = st.one_of(
    st.floats(50, 200).map(ok), st.sampled_from([Outcome.OOM, Outcome.FAILED, Outcome.TIMEOUT]).map(bad)
)


@given(st.lists(st.lists(attempts, max_size=4), max_size=5), st.lists(attempts, max_size=40))
def test_the_schedule_agrees_with_its_rule_at_every_step(
    done: list[list[Attempt]], coming: list[Attempt]
) -> None:
    schedule, plain = Schedule(IN_ORDER, "abcde"[: len(done)], done), [list(runs) for runs in done]
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
def test_ten_thousand_cases_take_turns_without_a_scan_of_all_each_time() -> None:
    """A look at every case for every run would take this test hours, not seconds."""
    cases = [str(case) for case in range(10_000)]
    order = run_to_the_end(Schedule(DLPERF, cases, [[] for _ in cases]), ok(1.0))
    assert all(sorted(order[at : at + 10_000]) == list(range(10_000)) for at in range(0, 50_000, 10_000))
