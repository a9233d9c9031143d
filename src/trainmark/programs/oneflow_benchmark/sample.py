"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        "model = resnet50",
        f"batch_size_per_device = {run.batch_per_device}",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
        f"use_fp16 = {run.amp}",
    )
    for line in lines_of(run):
        yield (
            f"train: epoch 0, iter {line.step}, loss: 7.087004, top_1: 0.000000, top_k: 0.000000, "
            f"samples/s: {line.rate:.3f} {line.clock.timestamp()}"
        )
    yield "validation: epoch 0, iter 195, top_1: 0.000957, top_k: 0.005313, samples/s: 964.656"
