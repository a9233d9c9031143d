"""Made-up lines of the toy trainer."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the lines of a log of ``run``."""
    yield f"toy-trainer: {run.gpus} devices, batch {run.batch_per_device}"
    yield from (f"step {line.step}: {line.rate} samples/s" for line in lines_of(run))
    yield "toy-trainer: done"
