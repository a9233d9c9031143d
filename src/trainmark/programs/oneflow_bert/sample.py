"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        f"Running BERT Pretrain: num_gpu_per_node = {run.gpus}, num_nodes = 1.",
        "model = BERT Pretrain",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
        f"use_fp16 = {run.amp}",
        f"batch_size_per_device = {run.batch_per_device}",
    )
    for line in lines_of(run):
        yield (
            f"step: {line.step - 1}, total_loss: 11.162, mlm_loss: 10.474, nsp_loss: 0.688, "
            f"throughput: {line.rate:.3f} {line.clock.timestamp()}"
        )
