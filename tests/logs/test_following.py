"""A log that is watched while a run writes it."""

from pathlib import Path

from trainmark.logs import EndState, Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import follow_log, synthetic_log

_RUN = SampleRun([0.5] * 100, gpus=8, batch_per_device=64)


def test_a_log_in_progress_gives_the_rate_so_far_and_ends_with_the_run(tmp_path: Path) -> None:
    lines = synthetic_log("ngc-pytorch-convnets", _RUN).encode().splitlines(keepends=True)
    path = tmp_path / "train.log"
    path.write_bytes(b"".join(lines[:60]) + lines[60][:30])
    rest = [lines[60][30:] + b"".join(lines[61:90]), b"".join(lines[90:])]

    def more() -> bool:
        with path.open("ab") as file:
            file.write(rest.pop(0))
        return True

    results = []
    for log in follow_log(path, None, more):
        doubts = [problem.code for problem in log.problems if problem.severity is Severity.DOUBT]
        results.append((log.records.count, log.end_state, measure_log(log).value, doubts))

    counts, end_states, values, doubts_of = zip(*results, strict=True)
    assert list(counts) == [*sorted(set(counts[:-1])), 100]
    assert end_states[-1] is EndState.FOUND
    assert values == (1024.0,) * 3
    assert doubts_of == ([], [], [])


def test_a_followed_log_is_read_as_is_when_following_stops(tmp_path: Path) -> None:
    lines = synthetic_log("megatron-lm", _RUN).encode().splitlines(keepends=True)
    path = tmp_path / "train.log"
    path.write_bytes(b"".join(lines[:40]) + lines[40][:50])

    *_, last = follow_log(path, None, lambda: False)

    assert last.status is Status.OK
    assert "incomplete" in [problem.code for problem in last.problems]


def test_a_truncated_and_rewritten_log_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(synthetic_log("megatron-lm", _RUN).replace("[after training is done]", ""))
    turns = iter([True, False])

    def restarted() -> bool:
        path.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 30, gpus=2)))
        return next(turns)

    *_, last = follow_log(path, None, restarted)

    assert (last.format, last.records.count, last.status) == ("torchtitan", 30, Status.OK)
