"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"{dll_stamp(run.start)} PARAMETER amp : {run.amp} "
    yield f"{dll_stamp(run.start)} PARAMETER world_size : {run.gpus} "
    for line in lines_of(run):
        yield f"{dll_stamp(line.clock)} (0, {line.step - 1}) train_items_per_sec : {line.rate} items/s "
        yield f"{dll_stamp(line.clock)} (0, {line.step - 1}) train_iter_time : {line.step_time_s} s "
    yield f"{dll_stamp(run.start)} (0,) train_items_per_sec : 1.0 items/s "
