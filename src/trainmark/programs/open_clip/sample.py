"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    before = f"{run.start:%Y-%m-%d,%H:%M:%S} | INFO |"
    yield f"{before} Params:"
    yield f"{before}   batch_size: {run.batch_per_device}"
    yield f"{before}   precision: {'amp' if run.amp else 'fp32'}"
    yield f"{before}   world_size: {run.gpus}"
    total = len(run.step_times_s) * run.global_batch
    for line in lines_of(run):
        rate = run.global_batch / line.last_step_time_s
        done = line.step * run.global_batch
        yield (
            f"{line.clock:%Y-%m-%d,%H:%M:%S} | INFO | Train Epoch: 0 [{done:>{len(str(total))}}/{total} "
            f"({100 * done / total:.0f}%)] Data (t): 0.125 Batch (t): {line.step_time_s:.3f}, {rate:#g}/s, "
            f"{rate / run.gpus:#g}/s/gpu LR: 0.000005 Logit Scale: 14.286 Contrastive_loss: 6.2 (6.2) Loss: 6.2 (6.2)"
        )
