"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of, mean_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"Namespace(amp='apex', apex_amp_opt_level='O2', batch_size={run.global_batch}, fp16={run.amp}, "
        "mem_len=192, tgt_len=1)"
    )
    yield f"world size: {run.gpus}"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield (
            f"| epoch   1 step {line.step:>8d} | batches {line.step:>6d} / {total} | lr 1.000e-02 "
            f"| ms/batch {line.step_time_s * 1000:5.1f} | tok/s {line.rate:7.0f} | loss 10.08 | ppl  23774.94"
        )
    yield f"Training throughput: {mean_rate(run):.2f} tok/s"
