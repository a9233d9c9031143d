"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from trainmark.logs.synthetic import SampleRun, end_of, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""

    def event(moment: datetime, key: str, value: object, metadata: dict[str, object]) -> str:
        document = {
            "namespace": "",
            "time_ms": int(moment.timestamp() * 1000),
            "event_type": "POINT_IN_TIME",
            "key": key,
            "value": value,
            "metadata": metadata,
        }
        return ":::MLLOG " + json.dumps(document)

    yield event(run.start, "submission_benchmark", "resnet", {})
    yield event(run.start, "global_batch_size", run.global_batch, {})
    yield event(run.start, "train_samples", run.global_batch * run.interval, {})
    yield event(run.start, "run_start", None, {})
    for number, line in enumerate(lines_of(run), start=1):
        began = line.clock - timedelta(seconds=line.step_time_s * run.interval)
        yield event(began, "epoch_start", None, {"epoch_num": number})
        yield event(line.clock, "epoch_stop", None, {"epoch_num": number})
    yield event(end_of(run), "run_stop", None, {"status": "success"})
