"""A log as tools around the program change it: its number stays, has a doubt, or there is none."""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from trainmark.logs import Facts, Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_stream, samples, synthetic_log

_RIGHT = 0.03
_FACTS = Facts(gpus=8, batch_per_device=64)


def _run(scale: float = 1.0, start: datetime | None = None) -> SampleRun:
    times = [scale * (0.5 + 0.01 * (step * 7 % 10) / 10) for step in range(90)]
    return SampleRun(times) if start is None else SampleRun(times, start=start)


def _ranks(tag: Callable[[int], str]) -> Callable[[Sequence[str]], str]:
    """Return a function that writes each line once for each of two ranks, behind their tags."""
    return lambda lines: "".join(f"{tag(rank)}{line}\n" for line in lines for rank in range(2))


def _each(prefix: Callable[[int], str]) -> Callable[[Sequence[str]], str]:
    return lambda lines: "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(lines))


def _every(step: int) -> Callable[[Sequence[str]], str]:
    return lambda lines: "\n".join([*lines[:2], *lines[2:-1:step], lines[-1]]) + "\n"


def _shuffled(lines: Sequence[str]) -> str:
    """Return the lines of two ranks without tags, three of each in turn."""
    return "".join(
        line + "\n" for at in range(0, len(lines), 3) for _ in range(2) for line in lines[at : at + 3]
    )


_VARIANTS: dict[str, Callable[[Sequence[str]], str]] = {
    "carriage returns": lambda lines: "".join(line + "\r" for line in lines),
    "dos": lambda lines: "".join(line + "\r\n" for line in lines),
    "each line twice": lambda lines: "".join(f"{line}\n{line}\n" for line in lines),
    "the file twice": lambda lines: "".join(line + "\n" for line in [*lines, *lines]),
    "ray": _ranks(lambda rank: f"(TrainActor pid={1000 + rank}, ip=10.0.0.{rank}) "),
    "ray in colours": _ranks(lambda rank: f"\x1b[36m(TrainActor pid={1000 + rank})\x1b[0m "),
    "docker compose": _ranks(lambda rank: f"trainer-{rank}  | "),
    "kubectl --prefix": _ranks(lambda rank: f"[pod/train-worker-{rank}/pytorch] "),
    "srun --label": _ranks(lambda rank: f"{rank}: "),
    "torchrun": _ranks(lambda rank: f"[default{rank}]:"),
    "rank": _ranks(lambda rank: f"[rank{rank}]:"),
    "pdsh": _ranks(lambda rank: f"node{rank}: "),
    "a host and its rank": _ranks(lambda rank: f"[node-{rank // 2} rank {rank}] "),
    "jax": _ranks(lambda rank: f"[process={rank}][thread=MainThread] "),
    "two ranks without tags": _shuffled,
    "wandb": _each(lambda _: "wandb: "),
    "github actions": _each(lambda number: f"2026-03-01T12:00:{number % 60:02}.1234567Z "),
    "syslog": _each(lambda _: "Mar  1 12:00:00 host train[123]: "),
    "every second line": _every(2),
    "every tenth line": _every(10),
}


def _read(text: str) -> tuple[float | None, bool]:
    """Return the number, and whether it has a doubt."""
    log = read_stream(io.BytesIO(text.encode()), given=_FACTS)
    number = measure_log(log)
    doubts = [each for each in reading_problems(log, number) if each.severity is Severity.DOUBT]
    return number.value, bool(doubts) or log.status is not Status.OK


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_log_that_tools_have_changed_is_not_silently_wrong(name: str) -> None:
    text = synthetic_log(name, _run())
    sound, _ = _read(text)
    if sound is None:
        return  # one second of the clock is too coarse for so short a run

    for variant, changed in _VARIANTS.items():
        value, in_doubt = _read(changed(text.splitlines()))
        assert value is None or in_doubt or abs(value / sound - 1) < _RIGHT, (variant, value, sound)


@pytest.mark.parametrize("name", sorted(samples()))
def test_two_runs_of_another_pace_in_a_file_are_not_silently_one(name: str) -> None:
    later = _run(2.0, datetime(2023, 7, 28, 8, 0, 0, tzinfo=UTC))
    first, second = synthetic_log(name, _run()), synthetic_log(name, later)

    value, in_doubt = _read(first + second)

    numbers = [_read(first)[0], _read(second)[0]]
    assert value is None or in_doubt or any(each and abs(value / each - 1) < _RIGHT for each in numbers)
