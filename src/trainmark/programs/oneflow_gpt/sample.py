"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "------------------------ arguments ------------------------"
    yield f"  fp16 ............................................ {run.amp}"
    yield f"  global_batch_size ............................... {run.global_batch}"
    yield "  metric_print_format ............................. normal"
    yield f"  num_gpus_per_node ............................... {run.gpus}"
    yield "  num_nodes ....................................... 1"
    yield "-------------------- end of arguments ---------------------"
    for line in lines_of(run):
        yield (
            f"step={line.step},micro_batches={line.step},samples={line.step * run.global_batch},"
            f"throughput={line.rate:.5f},latency={line.step_time_s:.5f},loss=10.97391,"
        )
