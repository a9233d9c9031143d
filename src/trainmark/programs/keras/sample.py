"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``: each interval is an epoch."""
    total = len(run.step_times_s) // run.interval
    for epoch, line in enumerate(lines_of(run), start=1):
        yield f"Epoch {epoch}/{total}"
        yield (
            f"{run.interval}/{run.interval} [==============================] - {line.step_time_s * run.interval:.0f}s "
            f"{line.step_time_s * 1000:.0f}ms/step - loss: 1.5000 - accuracy: 0.4300"
        )
