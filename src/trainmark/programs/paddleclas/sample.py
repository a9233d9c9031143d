"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, end_of, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"[{run.start:%Y/%m/%d %H:%M:%S}] ppcls INFO:"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},627 devices: {','.join(map(str, range(run.gpus)))}"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},627 ips: None"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},628 nnodes: 1"
    yield from (
        f"{stamp} Global : ",
        f"{stamp}     epochs : 1",
        f"{stamp} Arch : ",
        f"{stamp}     name : ResNet50",
    )
    if run.amp:
        yield from (f"{stamp} AMP : ", f"{stamp}     scale_loss : 128.0", f"{stamp}     level : O1")
    yield from (f"{stamp} Optimizer : ", f"{stamp} DataLoader : ", f"{stamp}     Train : ")
    yield from (f"{stamp}             batch_size : {run.batch_per_device}", f"{stamp}     Eval : ")
    for line in lines_of(run):
        seconds = line.elapsed_s / line.step
        yield (
            f"[{line.clock:%Y/%m/%d %H:%M:%S}] ppcls INFO: epoch:0   train step:{line.step}  lr: 0.100000, "
            f"loss:  6.5369 top1:  0.0078 top5: -0.0312 batch_cost: {seconds:.5f} s, reader_cost: 0.00051 s, ips: "
            f"{line.average_rate / run.gpus:.5f} samples/sec."
        )
    yield f"[{end_of(run):%Y/%m/%d %H:%M:%S}] ppcls INFO: END epoch:0   train loss: 6.5 batch_cost_sum: 47.44 s"
