"""Helpers of the tests of this folder: a sample of a format, and a log's rates."""

from collections.abc import Callable

from trainmark.logs import ParsedLog
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log

Reader = Callable[..., ParsedLog]
"""Reads text or bytes as a log: ``read(text, name="-", given=None)``."""

INTERVALS = {
    "paddleclas": 10,
    "paddlenlp-bert": 10,
    "paddleseg": 5,
    "fairseq": 10,
    "mmsegmentation": 2,
    "paddlerec": 20,
    "mlperf": 20,
}


def sample(name: str, steps: int = 120, seconds: float = 0.5, gpus: int = 8, *, amp: bool = False) -> str:
    return synthetic_log(
        name,
        SampleRun(
            [seconds] * steps, gpus=gpus, batch_per_device=64, interval=INTERVALS.get(name, 1), amp=amp
        ),
    )


def rates(log: ParsedLog) -> list[float | None]:
    return [record.rate for record in log.records.rows()]
