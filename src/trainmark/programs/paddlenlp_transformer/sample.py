"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "{'beam_search_version': 'v1',"
    yield from (f" 'batch_size': {run.batch_per_device},", f" 'max_iter': {len(run.step_times_s) + 1},")
    yield from (f" 'use_amp': {run.amp},", " 'use_pure_fp16': False,", " 'weight_sharing': True}")
    for line in lines_of(run):
        tokens = run.batch_per_device * run.interval
        yield (
            f"\x1b[32m[{line.clock:%Y-%m-%d %H:%M:%S},{line.clock.microsecond // 1000:03d}] [    INFO]\x1b[0m - "
            f"step_idx: {line.step}, epoch: 0, batch: {line.step}, avg loss: 2.8957, normalized loss: 1.5281, "
            f"ppl: 18.09, avg_speed: {1 / line.step_time_s:.2f} step/s, batch_cost: {line.step_time_s:.5f} sec, "
            f"reader_cost: 0.00439 sec, tokens: {tokens}, ips: {line.rate / run.gpus:.5f} words/sec\x1b[0m"
        )
    yield f"python -m paddle.distributed.launch --gpus={','.join(map(str, range(run.gpus)))} train.py"
