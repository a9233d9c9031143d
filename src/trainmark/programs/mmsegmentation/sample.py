"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator
from datetime import datetime

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""

    def stamp(moment: datetime) -> str:
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} - mmseg - INFO -"

    yield f"{stamp(run.start)} Distributed training: {run.gpus > 1}"
    yield f"{stamp(run.start)} Config:"
    yield from ("model = dict(", "    type='EncoderDecoder',", "    pretrained=None)")
    yield f"data = dict(samples_per_gpu={run.batch_per_device}, workers_per_gpu=4)"
    yield f"gpu_ids = range(0, {run.gpus})"
    if run.amp:
        yield "fp16 = dict(loss_scale='dynamic')"
    for line in lines_of(run):
        yield (
            f"{stamp(line.clock)} Iter [{line.step}/{len(run.step_times_s)}]\tlr: 8.426e-03, eta: 0:01:06, "
            f"time: {line.step_time_s:.3f}, data_time: 0.008, memory: 18707, decode.loss_ce: 1.9157, loss: 2.1"
        )
