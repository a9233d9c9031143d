"""An unknown program's log gets an answer: a number with what is assumed, or the reason why there is none."""

import gzip
import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from guess_logs import ONE_DEVICE, START, guessed_row, lines_of_steps, stamped_lines
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs import Facts, Status
from trainmark.logs.guess.reading import proposal, propose
from trainmark.logs.lines.transport import Recording
from trainmark.measure.rules import AuditVerdict, Claim, audit, measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_log, read_stream

_KNOWN = b"".join(
    b"Train: 0 [%4d/1251 (  4%%)]  Loss: 6.943 (6.95)  Time: 0.500s, 1024.00/s  (0.500s, 1024.00/s)  "
    b"LR: 1.000e-04  Data: 0.010 (0.012)\n" % at
    for at in range(0, 1200, 50)
)


@pytest.mark.parametrize("is_stream", [False, True])
def test_records_of_another_form_in_the_log_of_a_known_program_are_guessed(
    tmp_path: Path, is_stream: bool
) -> None:
    """OLMo before OLMo-core: its words, other records."""
    text = "".join(
        f"olmo.train:978 INFO [step={at}/739328,epoch=0]\n    train/CrossEntropyLoss=2.3\n"
        f"    throughput/total_tokens={4194304 * at:,}\n    throughput/device/tokens_per_second={9000 + at % 3:,}\n"
        for at in range(1, 60)
    )
    (tmp_path / "a.log").write_text("olmo_core.train:1 INFO Running on 64 ranks\n" + text)

    if is_stream:
        log = read_stream(Once((tmp_path / "a.log").read_bytes()), "a.log", guess=True)
    else:
        log = read_log(tmp_path / "a.log", guess=True)

    assert log.status is Status.GUESSED
    assert measure_log(log).value == pytest.approx(64 * 9001, rel=0.001)
    assert "no line has the form of a record of 'olmo-core'" in log.problems[0].message


@pytest.mark.parametrize("error", ["torch.OutOfMemoryError: CUDA out of memory.", "RuntimeError: NCCL error"])
def test_an_unknown_run_that_goes_on_after_an_error_is_guessed(tmp_path: Path, error: str) -> None:
    """The launcher starts it again from its checkpoint; without that, the error is the outcome."""

    def run(steps: range) -> str:
        return "".join(f"step {at} loss 2.1 {8192 + at % 3} tok/s\n" for at in steps)

    failed = run(range(60)) + f'Traceback (most recent call last):\n  File "train.py", line 9\n{error}\n'
    (tmp_path / "failed.log").write_text(failed)

    assert guessed_row(tmp_path, failed + run(range(40, 120)))["throughput"] == pytest.approx(8193, rel=0.01)
    assert read_log(tmp_path / "failed.log", guess=True).status in (Status.OOM, Status.FAILED)


@pytest.mark.parametrize(
    "lines",
    [
        lines_of_steps(lambda at: f"return={700 * at % 997}\nSPS: {1860 + at % 9}"),
        lines_of_steps(lambda at: f"reward 0.{at:03} | {1860 + at % 9} samples/s"),
    ],
    ids=["alone", "beside-a-reward"],
)
def test_a_speed_or_a_time_without_a_counter_of_steps_is_refused_by_that_reason(
    tmp_path: Path, lines: str
) -> None:
    row = guessed_row(tmp_path, lines, ONE_DEVICE)

    assert row["throughput"] is None
    assert "print a speed or a time, but none counts steps" in row["problems"][0]["message"]


@pytest.mark.parametrize(
    ("form", "between", "words"),
    [
        ("step {} | loss 2.5 | {:,} tok/s", " ", "blanks between thousands"),
        ("step {} | loss 0.345 | images/s {:.3f}", "", "decimal commas"),
        ("step {} | loss 2.345 | images/s {:.3f}", "", "decimal commas"),
        ("step {} | loss 2.5 | {:.2f} images/s", "", "decimal commas"),
        ("step {} | loss 2.5 | step_time {:.1f} ms", "", "decimal commas"),
    ],
)
def test_numbers_that_would_be_misread_give_no_number_and_the_reason(
    tmp_path: Path, form: str, between: str, words: str
) -> None:
    """``320,123`` images/s were 320 123, and ``2 600 044`` tok/s were 44."""
    scale = 7 if between else 1.001

    def line(at: int) -> str:
        text = form.format(at, 2_600_000 + at * scale if between else 320 + at * scale)
        return text.replace(",", between) if between else text.replace(".", ",")

    row = guessed_row(tmp_path, "".join(line(at) + "\n" for at in range(1, 80)))

    assert (row["throughput"], row["status"]) == (None, "unknown")
    assert words in row["problems"][0]["message"]


@pytest.mark.parametrize(
    ("given", "samples"),
    [
        (None, 64),
        (Facts(gpus=8), 64),
        (Facts(batch_per_device=2), 64),
        (Facts(batch_per_device=4), 4 * 8 * 4),
    ],
)
def test_a_guess_counts_all_micro_batches_that_the_known_program_states(
    tmp_path: Path, given: Facts | None, samples: int
) -> None:
    """A Trainer's log between whose bars other lines are printed, so that its bar is guessed."""
    head = (
        "***** Running training *****\n"
        "  Instantaneous batch size per device = 2\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
        "  Gradient Accumulation steps = 4\n"
        "  Total optimization steps = 800\n"
    )
    bars = [
        f" {at // 8}%|#   | {at}/800 [{at // 60:02}:{at % 60:02}<10:00,  1.00s/it]\n" for at in range(1, 300)
    ]
    (tmp_path / "a.log").write_text(head + "".join(bars[150:] + bars[:150]))

    log = read_log(tmp_path / "a.log", given, guess=True)

    assert log.status is Status.GUESSED
    assert measure_log(log).value == pytest.approx(samples, rel=0.01)


def test_a_bar_up_to_another_number_than_that_of_the_steps_is_not_guessed_from(tmp_path: Path) -> None:
    """It may count micro-batches, so that a step of it has another batch."""
    head = "Unsloth - 2x faster free finetuning | Num GPUs = 1\n Total batch size = 16 | Total steps = {}\n"
    bars = [
        f" {at // 8}%|#   | {at}/800 [{at // 60:02}:{at % 60:02}<10:00,  1.00s/it]\n" for at in range(300)
    ]
    for steps, status in ((800, Status.GUESSED), (400, Status.INCOMPLETE)):
        (tmp_path / "a.log").write_text(head.format(steps) + "".join(bars[150:] + bars[:150]))

        assert read_log(tmp_path / "a.log", guess=True).status is status


def test_what_is_missing_is_named_as_a_flag(tmp_path: Path) -> None:
    row = guessed_row(tmp_path, stamped_lines(lambda at: f"step {at}, loss 3.{at:02}, step_time 2.000 s"))

    assert row["throughput"] is None
    assert set(row["needs"]) == {"--gpus", "--batch"}
    (why,) = (one["message"] for one in row["problems"] if one["code"] == "unknown-gpus")
    assert why.startswith("the records have times but no rates (a step takes 2 s, the median), and neither")


@pytest.mark.parametrize(
    "form",
    [
        lambda at: f"eval step {at} accuracy 0.5 1000 samples/s",
        lambda at: f"request {at} decode throughput: 1000 tokens/s",
        lambda at: f"GET /page/{at} 200 in 0.5{at % 7} s",
        lambda at: f"loss 2.{at:02} accuracy 0.{at:02}",
        lambda at: f"temperature {40 + at % 3} C, power {300 + at % 5} W",
    ],
)
def test_what_is_no_training_gets_no_number(tmp_path: Path, form: Callable[[int], str]) -> None:
    row = guessed_row(tmp_path, stamped_lines(form), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] is None


def test_steps_of_a_batch_that_differs_each_time_get_no_number(tmp_path: Path) -> None:
    varying = stamped_lines(
        lambda at: f"Epoch 1, batch {50 * at}, loss[loss=0.7], batch size: {8 + at % 5}, lr: 1e-3"
    )
    fixed = stamped_lines(lambda at: f"Epoch 1, batch {50 * at}, loss[loss=0.7], batch size: 16, lr: 1e-3")
    given = Facts(gpus=1, batch_per_device=16)

    assert guessed_row(tmp_path, varying, given)["status"] == "unknown"
    assert guessed_row(tmp_path, fixed, given)["throughput"] == pytest.approx(400)


@pytest.mark.parametrize("packed", [False, True])
def test_a_stream_that_is_read_once_gets_the_same_guess_as_a_file(tmp_path: Path, packed: bool) -> None:
    text = stamped_lines(lambda at: f"step {at} | loss 2.5{at:02} | {4096 + at % 2} tok/s", count=300)
    row = guessed_row(tmp_path, text)
    data = (tmp_path / "a.log").read_bytes()

    log = read_stream(Once(gzip.compress(data) if packed else data), "a.log", guess=True)

    assert reading_row(log, measure_log(log)) == {**row, "log": "a.log"}
    assert read_stream(io.BytesIO(data), "a.log").status == "unknown"


class Once(io.BytesIO):
    """A stream that cannot go back, as standard input and the members of an archive."""

    def seekable(self) -> bool:
        """Return False."""
        return False

    def seek(self, *_: object) -> int:
        """Raise: nothing may go back."""
        raise io.UnsupportedOperation


def test_the_stream_of_a_known_program_is_not_copied() -> None:
    recording = Recording(io.BytesIO(_KNOWN))
    assert recording.read() == _KNOWN
    assert recording.replay() is not None
    recording.discard()
    assert recording.replay() is None

    log = read_stream(io.BytesIO(_KNOWN), guess=True)

    assert log.format == "timm"


def test_a_guess_is_made_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(stamped_lines(lambda at: f"step {at} | {4096} tok/s"))

    assert read_log(tmp_path / "a.log").status == "unknown"


def test_the_proposed_format_can_be_saved_and_reads_the_log(tmp_path: Path) -> None:
    from trainmark.logs import read_log as read_with
    from trainmark.logs.description import build_format, read_description
    from trainmark.logs.format import GivenFormats

    (tmp_path / "a.log").write_text(stamped_lines(lambda at: f"step {at} | loss 2.5 | {4096} tok/s"))
    guess = propose(tmp_path / "a.log")
    assert guess is not None
    (tmp_path / "mine.yaml").write_text(proposal(guess))

    mine = build_format(read_description(tmp_path / "mine.yaml"))
    log = read_with(tmp_path / "a.log", GivenFormats((mine,)))

    assert (log.format, log.records.count, log.unit) == ("mine", 100, "tokens/s")
    assert measure_log(log).value == pytest.approx(4096)


def test_a_table_without_a_heading_of_its_size_gets_no_number(tmp_path: Path) -> None:
    rows = "".join(f"{10 * at} {1000 + at % 2} 7\n" for at in range(1, 41))

    assert guessed_row(tmp_path, "step samples/s\n" + rows)["status"] == "unknown"


@pytest.mark.parametrize("is_stream", [False, True])
def test_lines_that_count_steps_without_a_time_say_how_to_get_one(tmp_path: Path, is_stream: bool) -> None:
    """minimind, and PyTorch's examples/mnist."""
    text = lines_of_steps(
        lambda at: (
            f"Epoch:[1/1]({100 * at}/11040), loss: 5.1{at}, lr: 0.0005, epoch_time: {92 - at // 9}.0min"
        )
    )
    (tmp_path / "a.log").write_text(text)

    log = (
        read_stream(Once(text.encode()), guess=True)
        if is_stream
        else read_log(tmp_path / "a.log", guess=True)
    )

    assert log.status is Status.UNKNOWN
    assert "'Epoch:[N/N](N/N), loss: …' count steps without a time" in log.problems[0].message
    assert "trainmark run -- COMMAND" in log.problems[0].message


@pytest.mark.parametrize("form", ["request {} took 0.5 s", "temperature {}", "GET /page/{} 200"])
def test_lines_of_other_work_are_not_called_steps(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.log").write_text(lines_of_steps(form.format))

    assert "count steps" not in read_log(tmp_path / "a.log", guess=True).problems[0].message


def test_several_runs_of_an_unknown_program_are_called_that(tmp_path: Path) -> None:
    text = "".join(
        f"step {at} loss 2.1 {8192 + at % 3} tok/s\n" for end in (200, 77, 50) for at in range(1, end)
    )

    row = guessed_row(tmp_path, text)

    assert (row["status"], row["throughput"]) == ("invalid", None)
    assert "the file contains 3 runs" in next(
        p["message"] for p in row["problems"] if p["code"] == "several-runs"
    )


def test_an_audit_uses_no_guess(tmp_path: Path) -> None:
    text = stamped_lines(lambda at: f"step {at} throughput 512.0 samples/s")
    assert guessed_row(tmp_path, text)["throughput"] == pytest.approx(512)

    found = next(audit([Claim("a.log", "512.0")], tmp_path))

    assert found.verdict is AuditVerdict.UNREADABLE
    assert "no line matches a known log format" in found.note


@pytest.mark.parametrize(
    ("form", "number", "assumed"),
    [
        (
            lambda at: f"iter: {10 * at} loss: 2.1 time/iter: 125 ms",
            256,
            "'time/iter ms' is the time of one step. ",
        ),
        (
            lambda at: f"update {at} | fps {12000 + at % 9} | reward 1.5",
            12004,
            "'fps' is frames/s of all devices",
        ),
        (lambda at: f"step {at} samples/sec={512 + at % 9} lr=1e-4", 516, "'samples/sec' is samples/s"),
        (lambda at: f"step {at} | dt 250ms | 131K tok/s", 131_000, "'tok/s' is tokens/s of all devices"),
        (lambda at: f"step {at} | dt 250ms | 131K tok/s", 131_000, "rate x time is constant (about 32800)"),
    ],
)
def test_what_is_assumed_names_the_words_that_say_it(
    tmp_path: Path, form: Callable[[int], str], number: float, assumed: str
) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 91))

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=32))

    assert row["throughput"] == pytest.approx(number, rel=0.001)
    assert assumed in row["problems"][0]["message"]


@pytest.mark.parametrize(
    "form",
    [
        lambda at: f"Batch {at}\n  prompts: {at % 5}\n  throughput: {300 + at % 3} tokens/s\n",
        lambda at: f"Request {at}\n  decode: {300 + at % 3} tokens/s\n",
        lambda at: f"Step {at}\n  val loss: 0.{at}\n  speed: {300 + at % 3} samples/s\n",
        lambda at: f"wrote shard {at}\n  speed: {500 + at % 3} docs/s\n",
        lambda at: f"step {at}\n  throughput: {500 + at % 3} GB/s\n",
        lambda at: f"step {at} throughput: {500 + at % 3} TFLOP/s\n",
        lambda at: f"Loading batch {at} took 0.0{1 + at % 9}s\n",
        lambda at: f"frame={at} fps={30 + at % 3} bitrate=2000.1kbits/s speed=1.0{at % 9}x\n",
        lambda at: f"batch {at} packets loss 0.{at % 9} 12.{at % 9} ms\n",
    ],
)
def test_a_block_of_other_work_and_a_rate_of_something_else_give_no_number(
    tmp_path: Path, form: Callable[[int], str]
) -> None:
    row = guessed_row(tmp_path, "".join(map(form, range(1, 150))), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] is None


_WORDS = [
    "step", "iter", "epoch", "loss", "time", "elapsed", "wall_time", "total_time", "data_time", "throughput",
    "speed", "tok/s", "samples/s", "samples/s/gpu", "it/s", "s/it", "ms/step", "fps", "tps", "avg_tps",
    "tokens_seen", "consumed_samples", "batch_size", "eta", "took", "dt", "SPS", "train_time", "elapsed_ms",
]  # fmt: skip
_VALUES: list[Callable[[int], str]] = [
    str,
    lambda at: f"{at / 2:.2f}",
    lambda at: "0.25",
    lambda at: f"{at // 60}:{at % 60:02}",
    lambda at: f"0:{at // 60:02}:{at % 60:02}",
    lambda at: f"{1 + at % 3}.5K",
    lambda at: f"{1000 * at:,}",
    lambda at: f"{2 * at}ms",
    lambda at: "3 s",
    lambda at: f"[{at}/100]",
    lambda at: f"({at % 7}.{at % 9}, 0.3)",
]
_PART = st.tuples(
    st.sampled_from(_WORDS),
    st.sampled_from([": ", "=", " "]),
    st.sampled_from(_VALUES),
    st.sampled_from(" |,;\t"),
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "INFO ", "{stamp} "]), st.lists(_PART, min_size=1, max_size=6)),
        min_size=1,
        max_size=3,
    )
)
def test_any_line_of_words_and_numbers_is_read_or_refused(lines: list[tuple[str, list[Any]]]) -> None:
    text = "".join(
        start.format(stamp=f"{START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}")
        + "".join(f"{word}{sign}{value(at)}{end}" for word, sign, value, end in parts)
        + "\n"
        for at in range(1, 40)
        for start, parts in lines
    )

    log = read_stream(io.BytesIO(text.encode()), given=Facts(gpus=2, batch_per_device=4), guess=True)

    assert log.status is not Status.UNREADABLE
    measure_log(log)
