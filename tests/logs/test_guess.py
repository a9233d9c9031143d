"""An unknown program's log gets an answer: the lines that repeat, their fields by words, and what is assumed."""

import gzip
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs import Facts, Status
from trainmark.logs.guess.families import meaning_of
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
_START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def _lines(form: Callable[[int], str], count: int = 100, seconds: float = 2.0) -> str:
    return "".join(
        f"{_START + timedelta(seconds=seconds * at):%Y-%m-%d %H:%M:%S} {form(at)}\n"
        for at in range(1, count + 1)
    )


def _row(folder: Path, text: str, given: Facts | None = None) -> dict[str, Any]:
    (folder / "a.log").write_text("program 1.0 starts\n" + text + "done\n")
    log = read_log(folder / "a.log", given, guess=True)
    return reading_row(log, measure_log(log))


@pytest.mark.parametrize(
    ("form", "given", "value", "unit"),
    [
        (lambda at: f"step {at} | loss 2.5{at:02} | {4096 + at % 2} tok/s", Facts(), 4096.5, "tokens/s"),
        (
            lambda at: f"[iter {10 * at:5}] loss=1.{at:02} throughput: 512.0 samples/s",
            Facts(),
            512,
            "samples/s",
        ),
        (
            lambda at: f"iteration={at} tokens_per_second_per_gpu=1,000.5 lr=1e-4",
            Facts(gpus=4),
            4002,
            "tokens/s",
        ),
        (
            lambda at: f"step {at}/100, loss 3.{at:02}, step_time 2.000 s",
            Facts(gpus=2, batch_per_device=16),
            16,
            "samples/s",
        ),
        (
            lambda at: f"update: {at} loss: 1.5 step time (ms): 2000.0",
            Facts(gpus=1, batch_per_device=8),
            4,
            "samples/s",
        ),
        # A word between two numbers is the name of the second where each number follows its name.
        (lambda at: f"step {at} loss 2.0 step_time 2.0 samples/s 400", Facts(), 400, "samples/s"),
        (lambda at: f"step {at} step_time 2.0 seq/s 8 tokens/s 8192", Facts(), 8, "sequences/s"),
        (lambda at: f"step {at} speed 400 samples/s 2.0 s/it", Facts(), 400, "samples/s"),
        (lambda at: f"step {at} speed=400 s/it=2.0", Facts(), 400, "samples/s"),
        (
            lambda at: f"step: {100 * at}/ 99999 loss:0.3651 0.3224 imps:26.5 lr: 0.03",
            Facts(),
            26.5,
            "images/s",
        ),
        (lambda at: f"step {at} loss 3.1 s/it 2.0", Facts(gpus=1, batch_per_device=8), 4, "samples/s"),
        (
            lambda at: f"epoch 0 batch {at} loss 0.{at:02}",
            Facts(gpus=1, batch_per_device=64),
            32,
            "samples/s",
        ),
    ],
)
def test_words_and_consistency_give_a_number(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float, unit: str
) -> None:
    row = _row(tmp_path, _lines(form), given)

    assert row["status"] == "guessed"
    assert row["format"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.01)
    assert row["unit"] == unit
    assert any(p["code"] == "guessed" and p["severity"] == "doubt" for p in row["problems"])


def _block(form: Callable[[int], str], count: int = 60) -> str:
    return "".join(f"{form(at)}\n" for at in range(1, count + 1))


_ONE = Facts(gpus=1, batch_per_device=16)
_GLOG = "I0301 12:{:02}:{:02}.{:06} 1400235 "


@pytest.mark.parametrize(
    ("text", "given", "value", "unit"),
    [
        pytest.param(  # Swin Transformer and the many that began with its main.py
            "".join(
                f"[{_START + timedelta(seconds=600 * epoch + at):%Y-%m-%d %H:%M:%S} swin] (main.py 267): INFO Train: "
                f"[{epoch}/300][{at}/400]\teta 0:04:0{at % 10} lr 0.0001\ttime 1.00{at % 2} (1.1000)\tloss 6.8 (6.9)\n"
                for epoch in (0, 1)
                for at in range(0, 400, 10)
            ),
            _ONE,
            16,
            "samples/s",
            id="epoch-and-step-of-totals",
        ),
        pytest.param(  # WeNet, CosyVoice
            _lines(
                lambda at: f"DEBUG TRAIN Batch 0/{20 * at} loss 3.1{at:02} lr 0.0001 rank 0", seconds=10.0
            ),
            _ONE,
            32,
            "samples/s",
            id="step-behind-the-epoch",
        ),
        pytest.param(  # V-JEPA
            _block(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} [mem: 1.20e+04] [iter: 500.{at % 9} ms] [gpu: 470.1 ms]"
                )
            ),
            _ONE,
            32,
            "samples/s",
            id="counter-without-a-name",
        ),
        pytest.param(  # I-JEPA
            _block(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} masks: 63.1 80.2 [mem: 1.20e+04] (500.{at % 9} ms)"
                )
            ),
            _ONE,
            32,
            "samples/s",
            id="time-without-a-name",
        ),
        pytest.param(  # InternEvo
            _block(
                lambda at: (
                    f"tflops=180.4 step={at} loss=2.{at:02} tgs (tokens/gpu/second)=400{at % 3}.5 tgs/last_tgs_1=4001 "
                    f"tgs/tgs_all={3000 + at}.1 lr=1e-05 num_consumed_tokens={131072 * at} fwd_bwd_time=3.1{at % 10}"
                )
            ),
            Facts(gpus=8),
            8 * 4001.5,
            "tokens/s",
            id="device-within-the-unit",
        ),
        pytest.param(  # IBM's fms-fsdp
            _block(
                lambda at: (
                    f"step: {10 * at}\nloss: 2.{at}\ntokens seen: {655360 * at}\ncurrent step time: 2.00{at % 10}\n"
                    f"overall step time: {2.5 - at / 200}\ncurrent token per gpu per sec: {4094 + at % 5}\n"
                    f"overall token per gpu per sec: {3276 + at}\noverall token per day: {1000000 * at}\n"
                )
            ),
            Facts(gpus=8),
            8 * 4096,
            "tokens/s",
            id="device-in-words",
        ),
        pytest.param(  # CLU: Scenic, Flax' examples, init2winit
            "".join(
                _GLOG.format(at // 2, at % 2 * 30, at)
                + f"local.py:41] Setting work unit notes: {2 + at % 2 / 10:.1f} steps/s, "
                f"{at / 4:.1f}% ({60 * at}/24000), ETA: 3h2m\n"
                for at in range(1, 60)
            ),
            _ONE,
            16 * 2.05,
            "samples/s",
            id="comma-behind-the-unit",
        ),
        pytest.param(
            "".join(
                _GLOG.format(at // 2, at % 2 * 30, at)
                + f"train.py:570] Finished training step {60 * at}. Loss: 9.{at}\n"
                for at in range(1, 60)
            ),
            _ONE,
            32,
            "samples/s",
            id="glog",
        ),
        pytest.param(  # Cosmos-Predict
            _block(lambda at: f"{10 * at} : iter_speed 0.50 seconds per iteration | Loss: 0.1{at}"),
            _ONE,
            32,
            "samples/s",
            id="speed-in-seconds",
        ),
        pytest.param(  # rl_games
            _block(
                lambda at: (
                    f"fps step: {112900 + at} fps step and policy inference: {104300 + at} fps total: {78000 + at % 3} "
                    f"epoch: {at}/150 frames: {65536 * (at - 1)}"
                )
            ),
            Facts(),
            78001,
            "frames/s",
            id="total-of-three",
        ),
        pytest.param(  # RSL-RL: a step of the environments is no step of the learner
            _block(
                lambda at: (
                    f"######\n Learning iteration {at}/1500 \n\n  Computation: {65500 + at % 90} steps/s (collection: "
                    f"0.9{at % 10}s, learning 0.6{at % 10}s)\n  Mean reward: {at / 10:.2f}\n------\n"
                    f"  Total timesteps: {98304 * at}\n  Iteration time: 1.50s\n"
                )
            ),
            Facts(),
            65530,
            "samples/s",
            id="steps-of-environments",
        ),
        pytest.param(
            _block(lambda at: f"step {at} loss 2.1 Tokens per second: {8192 + at % 3}"),
            Facts(),
            8193,
            "tokens/s",
            id="per-second-in-words",
        ),
        pytest.param(
            _block(lambda at: f"step {at} | loss 2.1 | 262.{at % 3} ktok/s"),
            Facts(),
            262100,
            "tokens/s",
            id="kilo",
        ),
        pytest.param(
            _block(lambda at: f"train_step loss=2.1 step={at} throughput_tok_s={8192 + at % 3}.5"),
            Facts(),
            8193.5,
            "tokens/s",
            id="under-second",
        ),
        pytest.param(
            _block(lambda at: f"iter {at} loss 2.1 iter_s 0.50"),
            Facts(),
            None,
            "samples/s",
            id="under-seconds-of-a-step",
        ),
        pytest.param(  # Llama cookbook
            "".join(
                f"Training Epoch: 1/3, step {at}/388 completed (loss: {1 + at / 1000}): {at // 4}%|###   | "
                f"{at}/388 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\r"
                for at in range(11, 388)
            ),
            _ONE,
            16,
            "samples/s",
            id="bar-of-many-words",
        ),
        pytest.param(  # openpi: the time is that of all steps since the line before, as the time of day shows
            "".join(
                f"{_START + timedelta(seconds=50 * at):%H:%M:%S} INFO iter={100 * at} loss=0.0512 time=50.{at % 9}s\n"
                for at in range(1, 60)
            ),
            _ONE,
            32,
            "samples/s",
            id="time-of-an-interval-by-the-time-of-day",
        ),
        pytest.param(
            _block(
                lambda at: (
                    f"step {at} loss 2 data throughput 5000.{at % 9} samples/s, train throughput 64.{at % 9} samples/s"
                )
            ),
            Facts(),
            64.4,
            "samples/s",
            id="loading-is-used-last",
        ),
        pytest.param(  # AST
            _block(lambda at: f"Epoch: [1][{at}/300] Per Sample Total Time 0.1{at:02} Train Loss 0.1234"),
            _ONE,
            None,
            "samples/s",
            id="time-of-a-sample",
        ),
        pytest.param(
            "".join(
                "".join(f"  micro step {part}/4 loss 2.1 time 0.125{at % 9}\n" for part in (1, 2, 3, 4))
                + f"step {at} loss 2.1 time 0.50{at % 9}\n"
                for at in range(1, 60)
            ),
            _ONE,
            31.8,
            "samples/s",
            id="micro-steps",
        ),
        pytest.param(
            "┃ step ┃ loss ┃ tok/s ┃\n" + _block(lambda at: f"│ {at:4} │ 2.123 │ {8192 + at % 3:,} │"),
            Facts(),
            8193,
            "tokens/s",
            id="drawn-table",
        ),
        pytest.param(
            _block(lambda at: f"step {at} | loss 2.1 | tokens {16384 * at:,} | elapsed {2 * at}.0s"),
            Facts(),
            8192,
            "tokens/s",
            id="tokens-over-elapsed",
        ),
        pytest.param(  # a file's name is no word of training
            "".join(
                f"train.py:80] step {at} loss 2.1 step_time 0.50{at % 9}\n"
                + "".join(f"train.py:99] val step {one} loss 2.1 step_time 0.1{one}\n" for one in range(2))
                for at in range(1, 60)
            ),
            _ONE,
            31.8,
            "samples/s",
            id="validation-by-train.py",
        ),
        pytest.param(
            _block(
                lambda at: f"step={at} loss=2.12 memory(GiB)=45.0 wps(per GPU)={8190 + at % 5:,} tflops=400.1"
            ),
            Facts(gpus=4),
            4 * 8192,
            "tokens/s",
            id="device-behind-the-name",
        ),
        pytest.param(
            _block(lambda at: f"Training step {at} | loss: 2.1 | mfu 40.1 | iter time (sec) 0.50{at % 9}"),
            _ONE,
            31.8,
            "samples/s",
            id="unit-behind-the-name",
        ),
        pytest.param(  # docker compose
            "".join(
                f"trainer-1  | Train step: {at // 4}%|###   | {at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\n"
                for at in range(1, 300)
            ),
            _ONE,
            16,
            "samples/s",
            id="bar-of-a-service",
        ),
        pytest.param(  # GPT-2 courses
            _block(
                lambda at: (
                    f"Ep 1, Step {15 * at:06}, Train: 5.6, Val: 5.7, Step tok/sec: {12500 + at % 3}, "
                    f"Global avg tok/sec: {9000 + 10 * at}"
                )
            ),
            Facts(),
            12501,
            "tokens/s",
            id="average-is-used-last",
        ),
        pytest.param(  # tinygrad's LLaMA
            _block(
                lambda at: (
                    f"{at:5} 0.50{at % 9} s step, 0.45{at % 9} s gbs, 0.04 s optim, 2.1{at} loss, 0.01 LR"
                )
            ),
            _ONE,
            31.8,
            "samples/s",
            id="unit-of-a-step-in-words",
        ),
        pytest.param(  # MLX-LM, whose table has an arrow for better or worse
            "  iter   train_loss     tok/s     tokens\n"
            + _block(
                lambda at: (
                    f"  {10 * at:>4}    2.{at:03} {'▼▲'[at % 2]}    {8192 + at % 3:,}    {8.2 * at:.1f}k"
                )
            ),
            Facts(),
            8193,
            "tokens/s",
            id="table-with-signs",
        ),
        pytest.param(  # PhysicsNeMo
            "".join(
                f"[{_START + timedelta(seconds=6 * at):%H:%M:%S} - train - INFO] Epoch {at} Metrics: loss = 1.234e-03\n"
                f"[{_START + timedelta(seconds=6 * at + 5):%H:%M:%S} - train - INFO] Epoch Execution Time: 5.120e+00s, "
                f"Time/Iter: 5.0{at % 9}0e+02ms\n"
                for at in range(1, 60)
            ),
            _ONE,
            31.8,
            "samples/s",
            id="time-per-iteration-of-an-epoch",
        ),
        pytest.param(  # torchtune
            "".join(
                f"1|{at}|Loss: 1.{at:03}: {at // 4}%|###   | {at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\r"
                for at in range(11, 388)
            ),
            _ONE,
            16,
            "samples/s",
            id="bar-with-lines-in-its-words",
        ),
        pytest.param(  # OpenRLHF: a step has a generation, too
            "".join(
                f"INFO {_START + timedelta(minutes=at):%m-%d %H:%M:%S} ppo_trainer.py:547] Global step {at}: "
                f"{{'actor_lr': 5e-07, 'reward': 0.4{at}, 'timing/ppo_train': 18.5, 'timing/generation': 35.4}}\n"
                for at in range(1, 60)
            ),
            _ONE,
            16 / 60,
            "samples/s",
            id="step-with-a-generation",
        ),
        pytest.param(  # RWKV-LM
            "".join(
                f"\rEpoch 0: {at // 4}%|##  | {at}/400 [{at // 60:02}:{at % 60:02}<05:00,  1.00it/s, loss=4.123, "
                f"REAL it/s=1.000, Kt/s=262.{at % 3}]"
                for at in range(11, 388)
            )
            + "\n",
            Facts(),
            262_100,
            "tokens/s",
            id="thousands-behind-a-bar",
        ),
        pytest.param(  # DeepSpeed-Chat, step 1
            _block(
                lambda at: (
                    f"Epoch: 0, Step: {at}, Rank: 0, loss = 2.{at:02}\n"
                    f"Model Parameters: 1.429 B, Latency: 0.50s, TFLOPs: 45.10, Samples/sec: {256 + at % 3}.00, "
                    "Time/seq 0.00s, Batch Size: 128, Sequence Length: 512"
                )
            ),
            Facts(),
            257,
            "samples/s",
            id="latency-of-a-step",
        ),
        pytest.param(  # PaddleSpeech
            _block(
                lambda at: (
                    f"[INFO] [trainer.py:214] - Train: Rank: 0, epoch: 0, step: {100 * at}, loss: 1.{at}, "
                    f"batch_size: 32, ips: {64 + at % 3}.0 samples/s"
                )
            ),
            Facts(gpus=4),
            4 * 65,
            "samples/s",
            id="rate-of-the-named-rank",
        ),
        pytest.param(
            _block(lambda at: f"step {at} loss 2.1 lora rank 8 {64 + at % 3} samples/s"),
            Facts(),
            65,
            "samples/s",
            id="rank-of-an-adapter",
        ),
        pytest.param(  # V-JEPA 2: a mean that is near its end in the last line, and far from it on average
            _block(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} [mem: 1.2e+04] [iter: {500 * (1 + 10 / (10 * at)):.1f} ms]"
                )
            ),
            _ONE,
            32,
            "samples/s",
            id="mean-that-has-arrived",
        ),
        pytest.param(
            _block(lambda at: f"step {at} | loss 2.1 | 0.50{at % 9} s/step | eta {3 - at // 20}h{at % 60}m"),
            _ONE,
            31.8,
            "samples/s",
            id="eta-in-letters",
        ),
        pytest.param(  # pytorch-cifar
            "".join(
                f" [{'=' * (at // 6)}>{'.' * (65 - at // 6)}]  Step: 50{at % 9}ms | Tot: {at // 2}s{at % 2 * 500}ms | "
                f"Loss: 1.234 | Acc: 31.234% ({at}/{128 * at})\b\b\b\b {at}/391 \r"
                for at in range(1, 300)
            ),
            _ONE,
            31.8,
            "samples/s",
            id="bar-in-brackets",
        ),
        pytest.param(  # CenterNet
            "".join(
                f"ctdet/default |{'#' * (at // 20):32}| train: [1][{at}/3696]|Tot: 0:{at // 60:02}:{at % 60:02} |ETA: "
                f"1:0{at % 10}:44 |loss 1.234 |Data 0.001s(0.002s) |Net 1.00{at % 9}s \r"
                for at in range(1, 600)
            ),
            _ONE,
            16,
            "samples/s",
            id="total-so-far",
        ),
        pytest.param(  # ssd.pytorch
            _block(lambda at: f"timer: 0.50{at % 9} sec.\niter {10 * at} || Loss: 6.1{at} ||"),
            _ONE,
            31.8,
            "samples/s",
            id="timer",
        ),
        pytest.param(  # tianshou
            "".join(
                f"Epoch #1: {at // 4}%|##  | {at}/400 [{at // 60:02}:{at % 60:02}<05:00,  1.00it/s, n/ep=1, rew=12.3]\r"
                for at in range(11, 388)
            ),
            _ONE,
            16,
            "samples/s",
            id="number-sign-before-a-bar",
        ),
        pytest.param(  # PyTorch Geometric: the bar counts nodes
            "".join(
                f"Epoch 01: {at // 2}%|##  | {1024 * at}/196615 [{at // 6:02}:{10 * at % 60:02}<05:00, 102.40it/s]\r"
                for at in range(1, 193)
            ),
            Facts(gpus=1, batch_per_device=1024),
            102.4,
            "samples/s",
            id="bar-of-samples",
        ),
        pytest.param(
            "┏━━━━━━┳━━━━━━┳━━━━━━━━━━┳━━━━━━━━━┓\n┃ Step ┃ Loss ┃ Time (s) ┃ Tok/s   ┃\n"
            "┡━━━━━━╇━━━━━━╇━━━━━━━━━━╇━━━━━━━━━┩\n"
            + _block(lambda at: f"│ {at:<4} │ 2.12 │ 1.01{at % 9}    │ {8192 + at % 3:<7,} │"),
            Facts(),
            8193,
            "tokens/s",
            id="columns-of-two-words",
        ),
        pytest.param(  # kubectl logs --timestamps
            "".join(
                f"{_START + timedelta(seconds=20 * at):%Y-%m-%dT%H:%M:%S.123456789Z} "
                f"{_START + timedelta(seconds=20 * at):%Y-%m-%d %H:%M:%S,123} - INFO - step {at} step_time 20.0{at} s\n"
                for at in range(10, 90)
            ),
            _ONE,
            16 / 20.05,
            "samples/s",
            id="two-stamps",
        ),
        pytest.param(
            _block(lambda at: f"{1748942067.5 + 2 * at:.3f} step {at} loss 2.1"),
            _ONE,
            8,
            "samples/s",
            id="seconds-since-1970",
        ),
        pytest.param(
            _block(lambda at: f"step {at} loss 2.1 throughput: {9600 + at % 3} samples/min"),
            Facts(),
            None,
            "samples/s",
            id="speed-in-minutes",
        ),
    ],
)
def test_lines_of_public_programs_are_guessed(
    tmp_path: Path, text: str, given: Facts, value: float | None, unit: str
) -> None:
    row = _row(tmp_path, text, given)

    assert row["throughput"] == (None if value is None else pytest.approx(value, rel=0.01))
    assert row["unit"] in (unit, None)


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (lambda steps, seconds: f"step {steps} loss 2.1 samples/sec: {32 * steps / seconds:.2f}", Facts()),
        (
            lambda steps, seconds: f"step {steps} loss 2.1 avg_step_time {seconds / steps * 1000:.1f} ms",
            Facts(gpus=2, batch_per_device=16),
        ),
        (
            lambda steps, seconds: f"it {steps} loss 2.1 {steps / seconds:.3f} it/s",
            Facts(gpus=2, batch_per_device=16),
        ),
    ],
)
def test_a_mean_since_the_start_is_recognised_by_its_course(
    tmp_path: Path, form: Callable[[int, float], str], given: Facts
) -> None:
    """The first step compiles for a minute, which a mean since the start has in all its values."""
    for steps in (range(10, 610, 10), range(260, 610, 10)):
        row = _row(tmp_path, "".join(f"{form(at, 60 + at / 2)}\n" for at in steps), given)

        assert row["throughput"] == pytest.approx(64, rel=0.01)
        assert "is the mean since the start" in row["problems"][0]["message"]


@pytest.mark.parametrize("prefix", ["INFO:root:", "[INFO    ][2026-03-01 12:00:00][root][train] "])
def test_a_mean_since_the_start_of_each_epoch_is_recognised(tmp_path: Path, prefix: str) -> None:
    """I-JEPA and V-JEPA: the first epoch has a slow step, and no number has a name but the time."""
    lines = "".join(
        f"{prefix}[{epoch}, {at:5}] loss: 0.{at:03} [lr: 1.00e-03] "
        f"({1000 * ((50 if epoch == 1 else 0) + (at + 1) / 2) / (at + 1):.1f} ms)\n"
        for epoch in (1, 2)
        for at in range(0, 500, 10)
    )

    row = _row(tmp_path, lines, Facts(gpus=2, batch_per_device=16))

    assert row["throughput"] == pytest.approx(64, rel=0.01)
    assert "is the mean since the start" in row["problems"][0]["message"]


@pytest.mark.parametrize(
    "form",
    [
        "%H:%M:%S",
        "%m/%d/%Y %H:%M:%S",
        "%d.%m.%Y %H:%M:%S",
        "%Y%m%d-%H:%M:%S",
        "%m-%d %H:%M:%S",
        "%b %d %H:%M:%S",
        "I%Y%m%d %H:%M:%S",
    ],
)
def test_a_time_of_day_goes_on_past_midnight(tmp_path: Path, form: str) -> None:
    """Programs print dates in many forms; the time of day is enough for lines of a few hours each."""
    lines = "".join(
        f"{datetime(2026, 2, 28, 22, tzinfo=UTC) + timedelta(minutes=10 * at):{form}} - step {at} loss 2.1\n"
        for at in range(200)
    )

    row = _row(tmp_path, lines, _ONE)

    assert row["throughput"] == pytest.approx(16 / 600, rel=0.01)


def test_speeds_of_steps_that_become_faster_are_no_mean_since_the_start(tmp_path: Path) -> None:
    warming = (f"step {10 * at} loss 2.1 samples/sec: {64 - 50 / at**2:.2f}" for at in range(1, 61))
    rising = (f"step {10 * at} loss 2.1 samples/sec: {60 + at / 10:.2f}" for at in range(1, 61))

    for lines in (warming, rising):
        row = _row(tmp_path, "".join(f"{line}\n" for line in lines))

        assert "mean since the start" not in row["problems"][0]["message"]


def test_times_of_steps_of_which_some_are_slow_are_no_mean_since_the_start(tmp_path: Path) -> None:
    """The first step is slow and the last ones are not: by a mean, the step after a slow one took less than nothing."""
    slow = {0: 0.02367, 71: 0.02125, 79: 0.02121}
    lines = (f"step {at} | loss 2.1 | step_time {slow.get(at, 0.02008):.5f} s\n" for at in range(80))

    row = _row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] == pytest.approx(1 / 0.0201, rel=0.01)
    assert "mean since the start" not in row["problems"][0]["message"]


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


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (2.0, 32),
        (0.001, 32),  # a copy of the log was stamped
        (1.0, 32),
        (2.5, 25.6),  # the program's clock leaves out pauses
    ],
)
def test_stamps_of_a_copy_of_the_log_give_way_to_the_programs_own_clock(
    tmp_path: Path, seconds: float, value: float
) -> None:
    lines = _lines(lambda at: f"step {at} loss 2.5 elapsed {2 * at:.1f}s", seconds=seconds)

    row = _row(tmp_path, lines, Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("error", ["torch.OutOfMemoryError: CUDA out of memory.", "RuntimeError: NCCL error"])
def test_an_unknown_run_that_goes_on_after_an_error_is_guessed(tmp_path: Path, error: str) -> None:
    """The launcher starts it again from its checkpoint; without that, the error is the outcome."""

    def run(steps: range) -> str:
        return "".join(f"step {at} loss 2.1 {8192 + at % 3} tok/s\n" for at in steps)

    failed = run(range(60)) + f'Traceback (most recent call last):\n  File "train.py", line 9\n{error}\n'
    (tmp_path / "failed.log").write_text(failed)

    assert _row(tmp_path, failed + run(range(40, 120)))["throughput"] == pytest.approx(8193, rel=0.01)
    assert read_log(tmp_path / "failed.log", guess=True).status in (Status.OOM, Status.FAILED)


def test_stamps_of_a_copy_of_the_log_give_way_to_the_time_of_a_bar(tmp_path: Path) -> None:
    lines = "".join(
        f"{_START + timedelta(milliseconds=3 * at):%Y-%m-%dT%H:%M:%S.%f}123Z Train step of epoch 0: {at // 4}%|###   | "
        f"{at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\n"
        for at in range(1, 300)
    )

    row = _row(tmp_path, lines, _ONE)

    assert row["throughput"] == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize(
    "lines",
    [
        _block(lambda at: f"global_step={700 * at % 997}, episodic_return=21.0\nSPS: {1860 + at % 9}"),
        _block(lambda at: f"Epoch {at:05} | Time(s) 0.012{at % 9} | Loss 2.{at:03} | ETputs(KTEPS) 872.40"),
    ],
    ids=["cleanrl", "dgl"],
)
def test_a_speed_or_a_time_without_a_counter_of_steps_is_refused_by_that_reason(
    tmp_path: Path, lines: str
) -> None:
    row = _row(tmp_path, lines, _ONE)

    assert row["throughput"] is None
    assert "print a speed or a time, but none counts steps" in row["problems"][0]["message"]


@pytest.mark.parametrize("zone", ["Z", "+00:00", "-0700", ".123456789Z stdout F"])
def test_a_time_zone_is_no_part_of_a_counters_name(tmp_path: Path, zone: str) -> None:
    text = "".join(
        f"{_START + timedelta(seconds=2 * at):%Y-%m-%dT%H:%M:%S}{zone} step={at} loss=2.5\n"
        for at in range(1, 99)
    )

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(32)
    assert "'step' counts steps" in row["problems"][0]["message"]


@pytest.mark.parametrize("between", [",", "'", "_", "\u00a0", "\u202f"])
def test_thousands_may_have_several_separators(tmp_path: Path, between: str) -> None:
    form = "step {} | loss 2.5 | {:,} tok/s"
    row = _row(tmp_path, _lines(lambda at: form.format(at, 2_600_000 + at * 7).replace(",", between)))

    assert row["throughput"] == pytest.approx(2_600_420, rel=1e-4)
    assert row["unit"] == "tokens/s"


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

    row = _row(tmp_path, "".join(line(at) + "\n" for at in range(1, 80)))

    assert (row["throughput"], row["status"]) == (None, "unknown")
    assert words in row["problems"][0]["message"]


def test_commas_between_thousands_and_lists_are_no_decimal_commas(tmp_path: Path) -> None:
    lines = _lines(lambda at: f"step {at:,} | shape (64,32) | betas [0.9,0.95] | {4096 + at % 2:,} tok/s")

    assert _row(tmp_path, lines)["throughput"] == pytest.approx(4096.5, rel=1e-3)


@pytest.mark.parametrize(
    "form",
    [
        "step {} loss 2.5 step_us=200000",
        "step {} loss 2.5 sec_per_step=0.2",
        "step {} loss 2.5 ms_per_iter: 200.0",
        "step {} loss 2.5 200000 us/step",
        "step {} loss 2.5 | 10 steps in 2.00s",
        "step {} loss 2.5 time for 10 steps: 2.00s",
    ],
)
def test_times_of_steps_have_many_names(tmp_path: Path, form: str) -> None:
    text = "".join(form.format(10 * at) + "\n" for at in range(1, 80))

    assert _row(tmp_path, text, Facts(gpus=1, batch_per_device=64))["throughput"] == pytest.approx(320)


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


def test_a_program_that_prints_its_epochs_alone_is_measured_by_their_clock(tmp_path: Path) -> None:
    # JAX's mnist_classifier prints the time in which it has handed over an epoch's steps, before they have run.
    epochs = _lines(lambda at: f"Epoch {at} in 0.3{at % 10} sec", seconds=20.0)
    row = _row(tmp_path, epochs, Facts(gpus=1, batch_per_device=3840))

    assert row["throughput"] == pytest.approx(3840 / 20)
    assumed = next(each for each in row["problems"] if each["code"] == "guessed")["message"]
    assert "no line counts steps, so an epoch counts as one step" in assumed


def test_the_printed_time_of_an_epoch_alone_gives_no_number(tmp_path: Path) -> None:
    row = _row(tmp_path, "".join(f"Epoch {at} in 0.3{at % 10} sec\n" for at in range(40)))

    assert row["throughput"] is None


@pytest.mark.parametrize(
    "form",
    [
        "| epoch {epoch:3d} | {batch:5d}/   40 batches | lr 20.00 | ms/batch 500.00 | loss 1.{batch:02}\n",
        "[INFO] epoch: {epoch}, batch_id: {batch}, auc:0.5{batch:02}, avg_batch_cost: 0.5 sec, ips: 32.0 ins/s\n",
    ],
)
def test_a_counter_may_begin_anew_with_each_epoch(tmp_path: Path, form: str) -> None:
    lines = [form.format(epoch=epoch, batch=batch) for epoch in (1, 2, 3) for batch in range(0, 40, 2)]
    row = _row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(32)
    assert not {each["code"] for each in row["problems"]} & {"restarted", "several-runs", "repeated-records"}


def test_lines_of_steps_are_used_before_those_of_epochs(tmp_path: Path) -> None:
    lines = [f"Epoch {at} in 7.0 sec\n" for at in range(60)]
    lines[20:20] = [f"step {at} step_time 2.000 s\n" for at in range(20)]
    row = _row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(8)


def test_what_is_missing_is_named_as_a_flag(tmp_path: Path) -> None:
    row = _row(tmp_path, _lines(lambda at: f"step {at}, loss 3.{at:02}, step_time 2.000 s"))

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
    row = _row(tmp_path, _lines(form), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] is None


def test_steps_of_a_batch_that_differs_each_time_get_no_number(tmp_path: Path) -> None:
    varying = _lines(
        lambda at: f"Epoch 1, batch {50 * at}, loss[loss=0.7], batch size: {8 + at % 5}, lr: 1e-3"
    )
    fixed = _lines(lambda at: f"Epoch 1, batch {50 * at}, loss[loss=0.7], batch size: 16, lr: 1e-3")
    given = Facts(gpus=1, batch_per_device=16)

    assert _row(tmp_path, varying, given)["status"] == "unknown"
    assert _row(tmp_path, fixed, given)["throughput"] == pytest.approx(400)


def test_a_time_that_the_stamps_contradict_is_not_taken_for_that_of_a_step(tmp_path: Path) -> None:
    row = _row(tmp_path, _lines(lambda at: f"step {at} time 0.01 s"), Facts(gpus=1, batch_per_device=10))

    assert row["throughput"] == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("packed", [False, True])
def test_a_stream_that_is_read_once_gets_the_same_guess_as_a_file(tmp_path: Path, packed: bool) -> None:
    text = _lines(lambda at: f"step {at} | loss 2.5{at:02} | {4096 + at % 2} tok/s", count=300)
    row = _row(tmp_path, text)
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
    (tmp_path / "a.log").write_text(_lines(lambda at: f"step {at} | {4096} tok/s"))

    assert read_log(tmp_path / "a.log").status == "unknown"


def test_the_proposed_format_can_be_saved_and_reads_the_log(tmp_path: Path) -> None:
    from trainmark.logs import read_log as read_with
    from trainmark.logs.description import build_format, read_description
    from trainmark.logs.format import GivenFormats

    (tmp_path / "a.log").write_text(_lines(lambda at: f"step {at} | loss 2.5 | {4096} tok/s"))
    guess = propose(tmp_path / "a.log")
    assert guess is not None
    (tmp_path / "mine.yaml").write_text(proposal(guess))

    mine = build_format(read_description(tmp_path / "mine.yaml"))
    log = read_with(tmp_path / "a.log", GivenFormats((mine,)))

    assert (log.format, log.records.count, log.unit) == ("mine", 100, "tokens/s")
    assert measure_log(log).value == pytest.approx(4096)


@pytest.mark.parametrize("words", ["per GPU", "(per GPU)", "/GPU", "per device"])
def test_words_behind_a_unit_name_the_devices(words: str) -> None:
    found = meaning_of("speed", "img/s", f" img/s {words} loss ")

    assert found is not None
    assert found.per_device


@pytest.mark.parametrize("name", ["| ms/batch", "lr 20.00 | ms/batch:", "s/it", "sec/step="])
def test_a_time_per_step_may_be_the_name_of_its_number(name: str) -> None:
    found = meaning_of(name, "")

    assert found is not None
    assert found.field in ("step_time_ms", "step_time_s")


@pytest.mark.parametrize("tag", ["[1,{rank}]<stdout>:", "[default{rank}]:", "{rank}: "])
def test_a_log_of_tagged_ranks_is_guessed_and_read_rank_by_rank(tmp_path: Path, tag: str) -> None:
    lines = [
        tag.format(rank=rank) + f"step {at} | loss 2.5 | step_time 0.5 s | data_time 0.{rank + 1} s"
        for at in range(1, 61)
        for rank in (0, 1)
    ]
    (tmp_path / "a.log").write_text("\n".join([*lines, ""]))

    log = read_log(tmp_path / "a.log", guess=True)

    assert log.status.value == "guessed"
    waits = [one.records.data_time_s for one in log.tagged_ranks()]
    assert [column.array()[0] for column in waits if column is not None] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("name", "unit", "field"),
    [
        ("data_time", "s", "data_time_s"),
        ("data time:", "", "data_time_s"),
        ("data", "ms", "data_time_ms"),
        ("waited for data", "s", "data_time_s"),
        ("load_time", "", "data_time_s"),
        ("data", "", None),
        ("metadata_time", "s", None),
    ],
)
def test_the_wait_for_data_is_recognised_by_its_name(name: str, unit: str, field: str | None) -> None:
    found = meaning_of(name, unit)
    assert (found.field if found else None) == field


@pytest.mark.parametrize(
    "table",
    [
        "epoch   step    loss  samples/s  time\n" + "-" * 40 + "\n{rows}",
        "| epoch | step | loss | samples/s | time |\n|---|---|---|---|---|\n{rows}",
    ],
)
def test_a_table_is_read_by_the_words_of_its_heading(tmp_path: Path, table: str) -> None:
    line = "| {} | {} | {} | {} | {} |\n" if "|" in table else "{:5} {:6} {:8} {:8} {:6}\n"
    rows = "".join(line.format(1, 10 * at, f"{3 - at / 100:.3f}", 1000 + at % 2, 0.25) for at in range(1, 41))

    row = _row(tmp_path, table.format(rows=rows))

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(1000.5, rel=1e-3)
    assert "rate x time is constant" in row["problems"][0]["message"]


@pytest.mark.parametrize("comma", [",", ", ", "\t"])
def test_values_between_commas_or_tabs_are_those_of_the_heading(tmp_path: Path, comma: str) -> None:
    """The commas of a row are not those of thousands: 12,101 is step 12 at 101 samples/s."""
    rows = "".join(f"{at}{comma}{(96, 104)[at % 2]}\n" for at in range(1, 101))

    row = _row(tmp_path, f"step{comma}samples_per_second\n{rows}")

    assert row["status"] == "guessed"
    assert row["records"] == 100
    assert row["throughput"] == pytest.approx(2 / (1 / 96 + 1 / 104), rel=1e-3)


def test_a_table_without_a_heading_of_its_size_gets_no_number(tmp_path: Path) -> None:
    rows = "".join(f"{10 * at} {1000 + at % 2} 7\n" for at in range(1, 41))

    assert _row(tmp_path, "step samples/s\n" + rows)["status"] == "unknown"


def test_a_stamp_in_brackets_before_the_counter_is_read(tmp_path: Path) -> None:
    """DiT and programs like it."""
    text = "".join(
        f"[{_START + timedelta(seconds=80 * at):%Y-%m-%d %H:%M:%S}] (step={100 * at:07}) Train Loss: 0.{2000 - at}, "
        "Train Steps/Sec: 1.25\n"
        for at in range(1, 41)
    )

    row = _row(tmp_path, text, Facts(gpus=8, batch_per_device=32))

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(1.25 * 256)


@pytest.mark.parametrize(
    "tag", ["", "[rank{}] ", "cuda:{} | ", "[rank {}/4] "], ids=["untagged", "rank", "device", "rank-of-all"]
)
def test_different_rates_of_ranks_are_each_ranks_own_and_equal_ones_those_of_all(
    tmp_path: Path, tag: str
) -> None:
    def lines(each: float) -> str:
        return "".join(
            f"{tag.format(rank)}step {at} | loss 2.{at} | {100 + at % 3 + each * rank:.1f} samples/s\n"
            for at in range(1, 61)
            for rank in range(4)
        )

    own = _row(tmp_path, lines(0.1), Facts(gpus=4))
    of_all = _row(tmp_path, lines(0.0), Facts(gpus=4))

    assert (own["status"], own["records"]) == ("guessed", 60)
    assert own["throughput"] == pytest.approx(4 * 101, rel=0.01)
    assert of_all["throughput"] == pytest.approx(101, rel=0.01)
    assert "is samples/s of one device" in own["problems"][0]["message"]
    assert "if each prints its own rate, all are 4 times as fast" in of_all["problems"][0]["message"]
    assert own["problems"][0]["severity"] == of_all["problems"][0]["severity"] == "doubt"


@pytest.mark.parametrize("is_stream", [False, True])
def test_lines_that_count_steps_without_a_time_say_how_to_get_one(tmp_path: Path, is_stream: bool) -> None:
    """minimind, and PyTorch's examples/mnist."""
    text = _block(
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
    (tmp_path / "a.log").write_text(_block(form.format))

    assert "count steps" not in read_log(tmp_path / "a.log", guess=True).problems[0].message


def test_several_runs_of_an_unknown_program_are_called_that(tmp_path: Path) -> None:
    text = "".join(
        f"step {at} loss 2.1 {8192 + at % 3} tok/s\n" for end in (200, 77, 50) for at in range(1, end)
    )

    row = _row(tmp_path, text)

    assert (row["status"], row["throughput"]) == ("invalid", None)
    assert "the file contains 3 runs" in next(
        p["message"] for p in row["problems"] if p["code"] == "several-runs"
    )


def test_a_given_batch_of_sequences_is_no_witness_against_tokens(tmp_path: Path) -> None:
    row = _row(tmp_path, _block(lambda at: f"step {at} loss 2 step_time 0.50{at % 9} tok/s 8192"), _ONE)

    assert row["throughput"] == pytest.approx(8192)
    assert "witnesses-disagree" not in {each["code"] for each in row["problems"]}


def test_an_audit_uses_no_guess(tmp_path: Path) -> None:
    text = _lines(lambda at: f"step {at} throughput 512.0 samples/s")
    assert _row(tmp_path, text)["throughput"] == pytest.approx(512)

    found = next(audit([Claim("a.log", "512.0")], tmp_path))

    assert found.verdict is AuditVerdict.UNREADABLE
    assert "no line matches a known log format" in found.note


def _images(epochs: int = 2) -> str:
    return "".join(
        f"(epoch: {epoch}, iters: {at}, time: 0.{110 + at // 100 % 3}, data: 0.002) G_A: 0.456 cycle_A: 1.200 \n"
        for epoch in range(1, epochs + 1)
        for at in range(100, 1301, 100)
    )


@pytest.mark.parametrize("is_stamped", [False, True])
def test_a_counter_that_may_be_of_samples_is_doubted_with_both_numbers(
    tmp_path: Path, is_stamped: bool
) -> None:
    text = "".join(
        f"{_START + timedelta(seconds=11.1 * at):%Y-%m-%d %H:%M:%S} {line}\n" if is_stamped else f"{line}\n"
        for at, line in enumerate(_images().splitlines())
    )

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=4))

    doubt = next(one for one in row["problems"] if one["code"] == "witnesses-disagree")
    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(4 / 0.111, rel=0.01)
    assert "the number is 36" in doubt["message"]
    assert "by the time of one sample it is 9.0" in doubt["message"]
    assert "if 'iters' counts samples and 'time' is the time of one: then add --batch 1" in doubt["message"]


@pytest.mark.parametrize(
    "form",
    [
        lambda at: f"iters: {at}, time: 0.110",  # every step has a line
        lambda at: f"iters: {100 * at}/9000, time: 0.110",  # up to a total
        lambda at: f"step: {100 * at}, time: 0.110",
        lambda at: f"iters: {10 * at}, time: 0.110",  # 10 is no multiple of the batch
        lambda at: f"iters: {100 * at}, time: 0.110, 36.4 images/s",
    ],
)
def test_a_counter_of_steps_is_not_doubted(tmp_path: Path, form: Callable[[int], str]) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 60))

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=4))

    assert row["throughput"] == pytest.approx(4 / 0.11, rel=0.01)
    assert "witnesses-disagree" not in [one["code"] for one in row["problems"]]


@pytest.mark.parametrize(
    ("form", "given", "number", "counted"),
    [
        (
            lambda at: f"step {10 * at} | tokens seen {40960 * at:,} | tok/s {16384} | dt 0.5 s",
            None,
            16384,
            8192,
        ),
        (
            lambda at: f"step {10 * at} | consumed samples: {640 * at} | step time: 0.250 s",
            Facts(gpus=1, batch_per_device=32),
            128,
            256,
        ),
    ],
)
def test_a_counter_of_samples_is_held_against_the_number(
    tmp_path: Path, form: Callable[[int], str], given: Facts | None, number: float, counted: float
) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 60))

    row = _row(tmp_path, text, given)

    doubt = next(one for one in row["problems"] if one["code"] == "witnesses-disagree")
    assert row["throughput"] == pytest.approx(number)
    assert f"the number is {number}, but by the consumed counter it is {counted}" in doubt["message"]


def test_a_counter_of_samples_that_agrees_is_a_witness_without_a_doubt(tmp_path: Path) -> None:
    text = "".join(
        f"step {10 * at} | tokens seen {40.96 * at:.2f}K | tok/s 8192 | dt 0.5 s\n" for at in range(9, 90)
    )

    row = _row(tmp_path, text)

    assert row["throughput"] == pytest.approx(8192)
    assert [one["name"] for one in row["witnesses"]] == ["printed rate", "consumed counter"]
    assert "witnesses-disagree" not in [one["code"] for one in row["problems"]]


def test_stamps_and_a_counter_of_samples_need_no_batch(tmp_path: Path) -> None:
    row = _row(tmp_path, _lines(lambda at: f"step {10 * at} loss 2.3 samples seen {640 * at}"))

    assert (row["status"], row["throughput"], row["unit"]) == ("guessed", pytest.approx(320), "samples/s")


@pytest.mark.parametrize(
    "rate",
    [
        "throughput 8.1{}k",
        "throughput 8.1{}K, lr 0.1",
        "8.1{}K tok/s",
        "8.1{} k tokens/s |",
        "tok/s: 8.1{}K |",
    ],
)
def test_a_rate_in_thousands_is_read_with_its_suffix(tmp_path: Path, rate: str) -> None:
    text = "".join(f"step {10 * at} | loss 2.1 | {rate.format(at % 10)}\n" for at in range(1, 90))

    row = _row(tmp_path, text)

    assert (row["status"], row["throughput"]) == ("guessed", pytest.approx(8145, rel=0.001))


@pytest.mark.parametrize(
    "form",
    [
        lambda n: f"step {n}/300 loss {1 / n:.4f} 20.0 ms/step",
        lambda n: f"step {n}/300 lr 3e-4 {1 / n:.4f} nats 50.0 it/s",
    ],
)
def test_a_number_that_only_its_unit_names_is_not_mistaken_for_another(
    tmp_path: Path, form: Callable[[int], str]
) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 301))
    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] == pytest.approx(50)


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

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=32))

    assert row["throughput"] == pytest.approx(number, rel=0.001)
    assert assumed in row["problems"][0]["message"]


@pytest.mark.parametrize("count", ["{}.0", "{:.4e}"])
def test_a_counter_of_samples_that_is_no_whole_number_costs_no_record(tmp_path: Path, count: str) -> None:
    lines = (f"step {10 * at} | tokens seen {count.format(40960 * at)} | tok/s 8192" for at in range(1, 60))

    row = _row(tmp_path, "".join(f"{line}\n" for line in lines))

    assert (row["status"], row["throughput"]) == ("guessed", pytest.approx(8192))
    assert [one["name"] for one in row["witnesses"]] == ["printed rate"]


def test_steps_are_the_counter_wherever_that_of_samples_is_printed(tmp_path: Path) -> None:
    lines = (f"consumed samples: {640 * at} | step {10 * at} | dt 0.500 s" for at in range(1, 60))

    row = _row(tmp_path, "".join(f"{line}\n" for line in lines), Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(128)
    assert {one["name"]: round(one["value"]) for one in row["witnesses"]} == {
        "step time": 128,
        "consumed counter": 128,
    }


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (
            lambda at: f"Elapsed Time: {timedelta(seconds=2 * at)} | Steps: {4 * at}",
            Facts(gpus=1, batch_per_device=8),
            16,
        ),
        (
            lambda at: f"[{timedelta(seconds=2 * at)}] step {at}, eta {timedelta(seconds=999 - at)}",
            Facts(gpus=1, batch_per_device=64),
            32,
        ),
        (
            lambda at: f"step {at} time 0:{2 * at // 60:02}:{2 * at % 60:02}.50 loss 1.{at}",
            Facts(gpus=1, batch_per_device=64),
            32,
        ),
    ],
)
def test_a_duration_since_the_start_is_the_clock_of_a_line(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float
) -> None:
    row = _row(tmp_path, "".join(f"{form(at)}\n" for at in range(1, 150)), given)

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.02)


_TABLE = """--------------------------
| rollout/    |          |
|    ep_rew   | {reward:<8} |
| time/       |          |
|    fps      | {fps:<8} |
|    iterations | {at:<6} |
--------------------------
"""


@pytest.mark.parametrize(
    ("form", "given", "value", "unit"),
    [
        (
            lambda at: f"[step {at}]\n  loss: 2.{at}\n  throughput: {300 + at % 3} samples/s\n\n",
            Facts(),
            301,
            "samples/s",
        ),
        (
            lambda at: f"Iteration: {at}/1000\nLoss: 2.{at}\nStep time: 0.5 s\n----\n",
            Facts(gpus=1, batch_per_device=8),
            16,
            "samples/s",
        ),
        (lambda at: _TABLE.format(reward=-at / 7, fps=1000 + at % 3, at=at), Facts(), 1001, "frames/s"),
        (
            lambda at: f"global_step={100 * at}, return={at % 7}\nSPS: {2000 + at % 3}\n",
            Facts(),
            2001,
            "samples/s",
        ),
    ],
)
@pytest.mark.parametrize("start", [0, 3])
def test_a_block_of_lines_is_one_record(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float, unit: str, start: int
) -> None:
    whole = "".join(map(form, range(1, 150)))
    row = _row(tmp_path, "\n".join(whole.split("\n")[start:]), given)

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.01)
    assert row["unit"] == unit


def test_a_rate_in_a_line_of_its_own_is_used_before_the_stamps_of_the_counter(tmp_path: Path) -> None:
    text = "".join(
        f"{_START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} INFO step {at}/1000\n"
        f"{_START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} INFO   tokens/sec/gpu: 1000\n"
        for at in range(1, 150)
    )

    row = _row(tmp_path, text, Facts(gpus=4))

    assert row["throughput"] == pytest.approx(4000)
    assert row["unit"] == "tokens/s"


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
    row = _row(tmp_path, "".join(map(form, range(1, 150))), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] is None


def test_sps_is_of_samples_unless_a_time_says_steps(tmp_path: Path) -> None:
    samples = _row(tmp_path, "".join(f"step {at} SPS: 2000\n" for at in range(1, 100)))
    steps = _row(
        tmp_path,
        "".join(f"step {at} time 0.5 SPS: 2.0\n" for at in range(1, 100)),
        Facts(gpus=1, batch_per_device=8),
    )

    assert samples["throughput"] == pytest.approx(2000)
    assert steps["throughput"] == pytest.approx(16)


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (lambda at: f"step {at} avg_samples/s {900 + at} samples/s 1000.0", Facts(), 1000),
        (lambda at: f"step {at} avg samples/s {900 + at} samples/s 1000.0", Facts(), 1000),
        (lambda at: f"step {at} local_tps 1000 global_tps 8000 time 1.0", Facts(), 8000),
        (lambda at: f"step {at} throughput per node: 1000 samples/s", Facts(nodes=2, gpus=16), 2000),
        (lambda at: f"step {10 * at} 10 steps took 5.0 s", Facts(gpus=1, batch_per_device=16), 32),
        (lambda at: f"step {10 * at} steps took 5.0 s", Facts(gpus=1, batch_per_device=16), None),
        (lambda at: f"step {at} loss 2,{at} | 1.234,5 tok/s", Facts(), None),
        (
            lambda at: f"step {at} gpu time 0.25 s sync time 0.25 s step time 0.50 s",
            Facts(gpus=1, batch_per_device=8),
            16,
        ),
        (lambda at: f"step {at} time 2.0 min", Facts(gpus=1, batch_per_device=8), None),
        (lambda at: f"step {at} elapsed {at / 10} h", Facts(gpus=1, batch_per_device=8), None),
        (lambda at: f"step {at} epoch_time 12.5", Facts(gpus=1, batch_per_device=8), None),
        (lambda at: f"step {at} | 234,5 tok/s", Facts(), None),
    ],
)
def test_of_several_figures_the_one_of_all_steps_and_devices_is_used(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float | None
) -> None:
    row = _row(tmp_path, "".join(f"{form(at)}\n" for at in range(1, 100)), given)

    assert row["throughput"] == (None if value is None else pytest.approx(value))


def test_lines_that_print_the_same_steps_are_named(tmp_path: Path) -> None:
    """A GAN trains two networks in turn: the time of a step is that of both."""
    text = "".join(f"[G] step {at} time 0.25 s\n[D] step {at} time 0.25 s\n" for at in range(1, 100))

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=8))

    assert "lines such as '[D] step N time N s' print the same steps" in row["problems"][0]["message"]


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
        start.format(stamp=f"{_START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}")
        + "".join(f"{word}{sign}{value(at)}{end}" for word, sign, value, end in parts)
        + "\n"
        for at in range(1, 40)
        for start, parts in lines
    )

    log = read_stream(io.BytesIO(text.encode()), given=Facts(gpus=2, batch_per_device=4), guess=True)

    assert log.status is not Status.UNREADABLE
    measure_log(log)


def test_a_time_per_batch_by_its_first_letter_is_that_of_a_step(tmp_path: Path) -> None:
    text = "".join(f">> it {at:05} || cls 1.8 || t/batch 0.400s\n" for at in range(20, 420, 20))

    row = _row(tmp_path, text, Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(16 / 0.4)


def test_a_time_between_counts_of_samples_is_of_samples_and_not_of_as_many_steps(tmp_path: Path) -> None:
    text = "".join(
        f"Train Epoch: 1 [{at}/60000 (1%)]\tLoss: 2.3\ttook 0.110s\n" for at in range(0, 12800, 640)
    )

    assumed = _row(tmp_path, text)["problems"][0]["message"]

    assert "if it is that of all 640 samples since the line before, add --batch 640" in assumed
    assert "640 steps" not in assumed


@pytest.mark.parametrize(("each", "of"), [(1, "one device"), (0, "all devices")])
@pytest.mark.parametrize("tag", ["[rank{}]: ", "{}: ", "[rank {}] "])
def test_rates_of_tagged_ranks_may_be_each_ranks_own(tag: str, each: int, of: str) -> None:
    lines = (
        f"{tag.format(rank)}step {step} loss 3.2 throughput {1000 + each * rank + step % 3} samples/s\n"
        for step in range(1, 100)
        for rank in range(4)
    )

    log = read_stream(io.BytesIO("".join(lines).encode()), "a.log", guess=True)

    assert log.status is Status.GUESSED
    (doubt,) = (one.message for one in log.problems if one.code == "guessed")
    assert f"is samples/s of {of}" in doubt
    assert doubt.count("if each prints its own rate, all are 4 times as fast") == 1 - each


@pytest.mark.parametrize(
    ("form", "whose"),
    [
        (
            lambda rank, at: f"[rank{rank}] iter {at} | loss 2.1 | {8 + at % 3 / 10:.2f} samples/s",
            "one device",
        ),
        (
            lambda rank, at: f"[rank{rank}] iter {at} | loss 2.1 | {32 + at % 3 / 10:.2f} samples/s",
            "all devices",
        ),
        (
            lambda rank, at: f"rank: {rank}, iter {at} | loss 2.1 | {32 + at % 3 / 10:.2f} samples/s",
            "all devices",
        ),
    ],
)
def test_the_clock_and_the_batch_show_whose_the_rates_are(
    tmp_path: Path, form: Callable[[int, int], str], whose: str
) -> None:
    lines = (
        f"{_START + timedelta(seconds=2 * at):%Y-%m-%d %H:%M:%S} {form(rank, at)}\n"
        for at in range(1, 90)
        for rank in range(4)
    )

    row = _row(tmp_path, "".join(lines), Facts(gpus=4, batch_per_device=16))

    assert row["throughput"] == pytest.approx(32, rel=0.02)
    assert f"is samples/s of {whose}" in row["problems"][0]["message"]
