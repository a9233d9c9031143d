"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        f"Running OneFlow-WDL: num_gpu_per_node = {run.gpus}, num_nodes = 1.",
        f"batch_size = {run.global_batch}",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
    )
    for line in lines_of(run):
        yield f"{line.step} time {line.clock.timestamp()} loss 0.4920539349317551"
