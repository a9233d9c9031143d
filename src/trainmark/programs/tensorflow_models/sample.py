"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    dtype = "fp16" if run.amp else "fp32"
    yield f"I0605 12:00:00.123456 140 common.py:1] num_gpus: {run.gpus} batch_size: {run.global_batch} dtype: {dtype}"
    for line in lines_of(run):
        seconds = line.step_time_s * run.interval
        yield (
            f"I0605 12:11:40.123456 140 keras_utils.py:145] TimeHistory: {seconds:.2f} seconds, {line.rate:.2f} "
            f"examples/second between steps {line.step - run.interval} and {line.step}"
        )
    yield "I0605 12:30:00.123456 140 resnet_ctl_imagenet_main.py:197] Run stats:"
