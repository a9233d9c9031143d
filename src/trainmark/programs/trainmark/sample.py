"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

import json
from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""

    def event(step: object, data: dict[str, object]) -> str:
        return "DLLL " + json.dumps({"step": step, "data": data})

    yield event(
        "PARAMETER",
        {
            "schema": "trainmark.events/1",
            "framework": "pytorch",
            "model": "resnet50",
            "precision": "amp-fp16" if run.amp else "fp32",
            "world_size": run.gpus,
            "batch_per_device": run.batch_per_device,
            "global_batch": run.global_batch,
            "unit": "samples/s",
        },
    )
    yield event([0, 0], {"phase": "first_step", "step_time_s": 9.0, "loss": 6.9})
    for number, seconds in enumerate(run.step_times_s, start=1):
        yield event([0, number], {"phase": "measured", "step_time_s": seconds, "loss": 6.9})
    seconds = sum(run.step_times_s)
    samples = run.global_batch * len(run.step_times_s)
    yield event(
        [], {"window_s": seconds, "samples": samples, "throughput": samples / seconds, "world_size": run.gpus}
    )
