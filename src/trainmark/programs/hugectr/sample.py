"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        f"Running HugeCTR-WDL: gpu_num_per_node = {run.gpus}, num_nodes = 1.",
        f"batch_size = {run.global_batch}",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
    )
    for line in lines_of(run):
        yield (
            f"[HUGECTR][{line.clock:%H:%M:%S}][INFO][RANK0]: Iter: {line.step} Time({run.interval} iters): "
            f"{line.step_time_s * run.interval:.6f}s Loss: 0.106469 lr:0.001000"
        )
