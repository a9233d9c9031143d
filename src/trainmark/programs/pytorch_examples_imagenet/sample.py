"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "=> creating model 'resnet50'"
    total = len(run.step_times_s)
    for line in lines_of(run):
        mean_s = line.elapsed_s / line.step
        yield (
            f"Epoch: [0][{line.step - 1:4d}/{total}]\tTime {line.last_step_time_s:6.3f} ({mean_s:6.3f})\t"
            "Data  0.001 ( 0.002)\tLoss 6.9812e+00 (7.0133e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   0.78 (  0.50)"
        )
    yield "Test: [ 0/50]\tTime  2.153 ( 2.153)\tLoss 6.9e+00 (6.9e+00)\tAcc@1   0.00 (  0.00)\tAcc@5   0.00 (  0.00)"
