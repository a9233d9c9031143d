"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"Namespace(batch_size={run.batch_per_device}, gradient_merge_steps=1, max_steps={len(run.step_times_s)}, "
        f"model_name_or_path='bert-base-uncased', use_amp={run.amp}, use_pure_fp16=False)"
    )
    for line in lines_of(run):
        yield (
            f"total step: {line.step}, epoch: 0, batch: {line.step - 1}, loss: 11.090787, avg_reader_cost: "
            f"0.00011 sec, avg_batch_cost: {line.step_time_s:.5f} sec, avg_samples: {run.batch_per_device:.5f}, "
            f"ips: {line.rate / run.gpus:.5f} sequences/sec"
        )
    yield f"python -m paddle.distributed.launch --gpus={','.join(map(str, range(run.gpus)))} run_pretrain.py"
