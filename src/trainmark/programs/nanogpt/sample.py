"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Overriding: dtype = {'float16' if run.amp else 'float32'}"
    yield f"tokens per iteration will be: {run.global_batch:,}"
    for line in lines_of(run):
        yield f"iter {line.step - 1}: loss 8.2133, time {line.last_step_time_s * 1000:.2f}ms, mfu 12.30%"
