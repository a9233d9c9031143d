"""The pace of the last records of a running program, and the step from which it looks steady."""

from trainmark.node import Heartbeat, RecentPace


def of(*points: tuple[float, int | None]) -> RecentPace:
    pace = RecentPace()
    for elapsed_s, step in points:
        pace.add(Heartbeat(elapsed_s, step))
    return pace


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    slow = [(float(second), second) for second in range(21)]
    fast = [(20.0 + second, 20 + 10 * second) for second in range(1, 11)]
    assert of(*slow).steps_per_s == 1
    assert of(*slow, *fast).steps_per_s == 10


def test_a_run_looks_steady_from_the_step_after_its_compilation() -> None:
    compiling = [(0.5 * number, 0 if number < 20 else 1) for number in range(24)]
    running = [(12 + 0.5 * number, 1 + 4 * number) for number in range(1, 20)]
    assert of(*compiling, *running).steady_from == 5
    assert of(*compiling).steady_from is None


def test_too_few_records_show_no_rate_and_a_counter_that_goes_back_begins_anew() -> None:
    assert of((1, None), (2, 3)).steps_per_s is None
    assert of((1, 10), (2, 20), (3, 1), (4, 2)).steps_per_s == 1
    assert of((0, 0), (30, 1), (60, 2)).steps_per_s == 1 / 30
