"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate

_ACCUMULATION = 4


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"+ mpirun python3 run_pretraining.py --train_batch_size={run.batch_per_device // _ACCUMULATION} "
        f"--num_accumulation_steps={_ACCUMULATION} --amp={run.amp} num_gpus: {run.gpus}"
    )
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Iteration: {line.step}  throughput_train : {line.rate:.3f} sequences/s "
            "mlm_loss : 10.41  nsp_loss : 0.70  total_loss : 11.11  learning_rate : 0.0 "
        )
    yield f"{dll_stamp(end_of(run))}  throughput_train : {overall_rate(run):.3f} sequences/s"
    yield f"Throughput Average (sentences/sec) = {overall_rate(run):.2f}"
