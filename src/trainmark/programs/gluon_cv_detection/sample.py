"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    gpus = ",".join(map(str, range(run.gpus)))
    yield (
        f"INFO:root:Namespace(amp={run.amp}, batch_size={run.global_batch}, gpus='{gpus}', horovod=False, "
        "network='vgg16_atrous')"
    )
    for line in lines_of(run):
        rate = run.global_batch / line.last_step_time_s
        yield (
            f"INFO:root:[Epoch 0][Batch {line.step - 1}], Speed: {rate:.3f} samples/sec, CrossEntropy=7.912, "
            "SmoothL1=3.204"
        )
