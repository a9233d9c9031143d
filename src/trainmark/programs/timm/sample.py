"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    if run.gpus == 1:
        yield "Training with a single process on 1 device (cuda:0)."
    else:
        mode = "Training in distributed mode with multiple processes, 1 device per process."
        yield f"{mode}Process 0, total {run.gpus}, device cuda:0."
    yield "Model resnet50 created, param count:25557032"
    if run.amp:
        yield "Using native Torch AMP. Training in mixed precision."
    else:
        yield "AMP not enabled. Training in float32."
    total = len(run.step_times_s)
    for line in lines_of(run):
        mean_s = line.elapsed_s / line.step
        rate = run.global_batch / line.last_step_time_s
        yield (
            f"Train: 0 [{line.step - 1:4d}/{total} ({100 * line.step // total:3d}%)]  Loss: 6.943 (6.95)  "
            f"Time: {line.last_step_time_s:.3f}s, {rate:>7.2f}/s  ({mean_s:.3f}s, {line.average_rate:>7.2f}/s)  "
            "LR: 1.000e-01  Data: 0.010 (0.110)"
        )
    yield "Test: [   0/48]  Time: 2.1 (2.1)  Loss:  6.9 (6.9)  Acc@1:  0.1 ( 0.1)  Acc@5:  0.5 ( 0.5)"
    yield "*** Best metric: 0.1 (epoch 0)"
