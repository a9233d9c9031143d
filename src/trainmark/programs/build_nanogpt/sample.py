"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    for line in lines_of(run):
        yield (
            f"step {line.step - 1:5d} | loss: 6.981234 | lr 6.0000e-04 | norm: 0.2900 | "
            f"dt: {line.step_time_s * 1000:.2f}ms | tok/sec: {line.rate:.2f}"
        )
