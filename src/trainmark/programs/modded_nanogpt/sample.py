"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "class Hyperparameters:"
    yield f"    batch_size : int = {run.gpus}*{run.batch_per_device} # batch size, in sequences, across all devices"
    yield "    sequence_length : int = 1 # sequence length, in tokens"
    yield "    num_iterations : int = 5100"
    total = len(run.step_times_s)
    for line in lines_of(run):
        mean = line.elapsed_s / line.step
        yield (
            f"step:{line.step}/{total} train_loss:6.9812 train_time:{line.elapsed_s * 1000:.0f}ms "
            f"step_avg:{mean * 1000:.2f}ms"
        )
    yield "peak memory consumption: 33798 MiB"
