"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"TrainingArguments(bf16=False, fp16={run.amp})"
    yield "***** Running training *****"
    yield f"  Instantaneous batch size per device = {run.batch_per_device}"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch}"
    yield "  Gradient Accumulation steps = 1"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield f"{{'loss': 0.1307, 'grad_norm': 0.1406, 'learning_rate': 2.756e-05, 'epoch': {line.step / total:.3f}}}"
    seconds = sum(run.step_times_s)
    yield (
        f"{{'train_runtime': {seconds:.4f}, 'train_samples_per_second': {overall_rate(run):.3f}, "
        f"'train_steps_per_second': {total / seconds:.3f}, 'train_loss': 0.2854, 'epoch': 1.0}}"
    )
