"""One set of facts from the log's text, its name and the reader's flags."""

import pytest
from conftest_logs import Reader, sample

from trainmark.logs import Facts, Hints, Severity
from trainmark.logs.facts import merge_facts
from trainmark.schema.precision import Precision

_SINGLE = frozenset({Precision.FP32, Precision.TF32})


@pytest.mark.parametrize(
    ("hints", "given", "gpus"),
    [
        (Hints(nodes=4, gpus=32), Facts(), 32),
        (Hints(gpus=32), Facts(), 32),
        (Hints(), Facts(nodes=2), 16),
        (Hints(), Facts(gpus=24), 24),
        (Hints(), Facts(), 8),
    ],
)
def test_devices_of_one_node_become_devices_of_all(hints: Hints, given: Facts, gpus: int) -> None:
    settled = merge_facts(Facts(gpus_per_node=8), hints, given)

    assert settled.facts.gpus == gpus
    assert not settled.contested


def test_assuming_one_node_is_reported() -> None:
    assert [p.code for p in merge_facts(Facts(gpus_per_node=8), Hints(), Facts()).problems] == [
        "one-node-assumed"
    ]


def test_the_text_wins_over_flag_and_name() -> None:
    settled = merge_facts(Facts(gpus=8, batch_per_device=64), Hints(gpus=4), Facts(gpus=2))

    assert settled.facts.gpus == 8
    assert settled.contested == {"gpus"}
    assert {p.code for p in settled.problems} == {"flag-contradicts-log", "name-contradicts-log"}


def test_a_flag_wins_over_the_name() -> None:
    settled = merge_facts(Facts(), Hints(gpus=4), Facts(gpus=2))

    assert settled.facts.gpus == 2
    assert [p.code for p in settled.problems] == ["flag-contradicts-name"]


@pytest.mark.parametrize(
    ("hardware", "precision"),
    [("Tesla V100-SXM2-32GB", Precision.FP32), ("NVIDIA A100-SXM4-40GB", None), (None, None)],
)
def test_fp32_is_not_claimed_where_tf32_may_have_been_on(
    hardware: str | None, precision: Precision | None
) -> None:
    settled = merge_facts(
        Facts(precision=Precision.FP32, hardware=hardware), Hints(precisions=_SINGLE), Facts()
    )

    assert settled.facts.precision is precision
    assert all(p.severity is Severity.NOTE for p in settled.problems)


def test_a_flag_can_declare_that_tf32_was_on() -> None:
    logged = Facts(precision=Precision.FP32, hardware="A100")

    assert merge_facts(logged, Hints(), Facts(precision=Precision.TF32)).facts.precision is Precision.TF32


def test_fp16_in_a_name_does_not_decide_between_mixed_and_pure() -> None:
    either = frozenset({Precision.AMP_FP16, Precision.FP16})

    assert merge_facts(Facts(), Hints(precisions=either), Facts()).facts.precision is None
    assert merge_facts(Facts(precision=Precision.AMP_FP16), Hints(precisions=either), Facts()).problems == ()


@pytest.mark.parametrize(("given", "doubtful"), [(Facts(), True), (Facts(nodes=1), False)])
def test_a_number_that_depends_on_an_assumed_node_is_a_doubt(
    read: Reader, given: Facts, doubtful: bool
) -> None:
    # Jobs of four nodes were published whose logs show the launcher's command without an address.
    log = read(sample("paddledetection"), given=given)

    assert ("one-node-assumed" in {p.code for p in log.problems if p.severity is Severity.DOUBT}) is doubtful


@pytest.mark.parametrize(("name", "doubtful"), [("run_N1C8_log", False), ("run_N4C8_log", True)])
def test_devices_multiplied_by_the_nodes_in_the_name_are_a_doubt(
    read: Reader, name: str, doubtful: bool
) -> None:
    log = read(sample("paddledetection"), name=name)

    assert log.facts.gpus == (32 if doubtful else 8)
    assert ("from-name" in {p.code for p in log.problems if p.severity is Severity.DOUBT}) is doubtful
