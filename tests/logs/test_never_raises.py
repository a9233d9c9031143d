"""Whatever a log says, reading it ends in a status and a sentence, and in nothing on the user's stderr."""

import warnings

import pytest
from conftest_logs import Reader, sample

from trainmark.logs import Status
from trainmark.measure.rules import measure_log

_MLLOG = ':::MLLOG {"namespace": "", "time_ms": %s, "event_type": "%s", "key": "%s", "value": %s, "metadata": {}}\n'


def _mllog(samples: str) -> str:
    return "".join(
        (
            _MLLOG % (1700000000000, "POINT_IN_TIME", "submission_benchmark", '"resnet"'),
            _MLLOG % (1700000001000, "POINT_IN_TIME", "train_samples", samples),
            _MLLOG % (1700000010000, "INTERVAL_START", "epoch_start", "null"),
            _MLLOG % (1700000060000, "INTERVAL_END", "epoch_stop", "null"),
        )
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("tokens per iteration will be: ,\n" + sample("nanogpt"), id="a count of no digits"),
        pytest.param(_mllog("9" * 400), id="a count of 400 digits"),
        pytest.param(_mllog("[" * 100_000), id="JSON of 100 000 levels"),
        pytest.param(
            "Building 1-D device mesh with ['dp_shard'], [8, ]\n" + sample("torchtitan"),
            id="a mesh that ends in a comma",
        ),
        pytest.param(
            "world_size=" + "9" * 5000 + "\n" + sample("torchtitan"),
            id="devices of more digits than int reads",
        ),
    ],
)
def test_unexpected_content_ends_in_a_status(read: Reader, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = read(text)
        result = measure_log(log)

    assert (result.value is None) == (log.status is not Status.OK or result.status is not Status.OK)
