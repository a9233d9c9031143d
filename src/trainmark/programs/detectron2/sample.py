"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"[{run.start:%m/%d %H:%M:%S}"
    yield f"{stamp} detectron2]: Rank of current process: 0. World size: {run.gpus}"
    yield f"{stamp} detectron2]: Running with full config:"
    yield "MODEL:"
    yield "  META_ARCHITECTURE: GeneralizedRCNN"
    yield "SOLVER:"
    yield "  AMP:"
    yield f"    ENABLED: {'true' if run.amp else 'false'}"
    yield f"  IMS_PER_BATCH: {run.global_batch}"
    yield "TEST: {}"
    first = sum(run.step_times_s[:2])
    for line in lines_of(run):
        if line.step <= 2:
            continue
        average = (line.elapsed_s - first) / (line.step - 2)
        yield (
            f"[{line.clock:%m/%d %H:%M:%S} d2.utils.events]:  eta: 0:05:22  iter: {line.step - 1}  total_loss: 1.986  "
            f"loss_cls: 0.595  time: {average:.4f}  last_time: {line.last_step_time_s:.4f}  data_time: 0.0222  "
            "last_data_time: 0.0101   lr: 1.6068e-05  max_mem: 2725M"
        )
    yield f"{stamp} d2.engine.hooks]: Total training time: 0:05:22 (0:00:01 on hooks)"
