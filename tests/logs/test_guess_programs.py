"""Lines as public programs print them are guessed, each with the number that it was written with."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from guess_logs import ONE_DEVICE, START, guessed_row, lines_of_steps, stamped_lines

from trainmark.logs import Facts


def _case(
    name: str, value: float | None, text: str, *, unit: str = "samples/s", given: Facts = ONE_DEVICE
) -> Any:
    return pytest.param(text, given, value, unit, id=name)


_GLOG = "I0301 12:{:02}:{:02}.{:06} 1400235 "


@pytest.mark.parametrize(
    ("text", "given", "value", "unit"),
    [
        _case(  # Swin Transformer and the many that began with its main.py
            "epoch-and-step-of-totals",
            16,
            "".join(
                f"[{START + timedelta(seconds=600 * epoch + at):%Y-%m-%d %H:%M:%S} swin] (main.py 267): INFO Train: "
                f"[{epoch}/300][{at}/400]\teta 0:04:0{at % 10} lr 0.0001\ttime 1.00{at % 2} (1.1000)\tloss 6.8 (6.9)\n"
                for epoch in (0, 1)
                for at in range(0, 400, 10)
            ),
        ),
        _case(  # WeNet, CosyVoice
            "step-behind-the-epoch",
            32,
            stamped_lines(
                lambda at: f"DEBUG TRAIN Batch 0/{20 * at} loss 3.1{at:02} lr 0.0001 rank 0", seconds=10.0
            ),
        ),
        _case(  # V-JEPA
            "counter-without-a-name",
            32,
            lines_of_steps(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} [mem: 1.20e+04] [iter: 500.{at % 9} ms] [gpu: 470.1 ms]"
                )
            ),
        ),
        _case(  # I-JEPA
            "time-without-a-name",
            32,
            lines_of_steps(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} masks: 63.1 80.2 [mem: 1.20e+04] (500.{at % 9} ms)"
                )
            ),
        ),
        _case(  # InternEvo
            "device-within-the-unit",
            8 * 4001.5,
            lines_of_steps(
                lambda at: (
                    f"tflops=180.4 step={at} loss=2.{at:02} tgs (tokens/gpu/second)=400{at % 3}.5 tgs/last_tgs_1=4001 "
                    f"tgs/tgs_all={3000 + at}.1 lr=1e-05 num_consumed_tokens={131072 * at} fwd_bwd_time=3.1{at % 10}"
                )
            ),
            unit="tokens/s",
            given=Facts(gpus=8),
        ),
        _case(  # IBM's fms-fsdp
            "device-in-words",
            8 * 4096,
            lines_of_steps(
                lambda at: (
                    f"step: {10 * at}\nloss: 2.{at}\ntokens seen: {655360 * at}\ncurrent step time: 2.00{at % 10}\n"
                    f"overall step time: {2.5 - at / 200}\ncurrent token per gpu per sec: {4094 + at % 5}\n"
                    f"overall token per gpu per sec: {3276 + at}\noverall token per day: {1000000 * at}\n"
                )
            ),
            unit="tokens/s",
            given=Facts(gpus=8),
        ),
        _case(  # CLU: Scenic, Flax' examples, init2winit
            "comma-behind-the-unit",
            16 * 2.05,
            "".join(
                _GLOG.format(at // 2, at % 2 * 30, at)
                + f"local.py:41] Setting work unit notes: {2 + at % 2 / 10:.1f} steps/s, "
                f"{at / 4:.1f}% ({60 * at}/24000), ETA: 3h2m\n"
                for at in range(1, 60)
            ),
        ),
        _case(
            "glog",
            32,
            "".join(
                _GLOG.format(at // 2, at % 2 * 30, at)
                + f"train.py:570] Finished training step {60 * at}. Loss: 9.{at}\n"
                for at in range(1, 60)
            ),
        ),
        _case(  # Cosmos-Predict
            "speed-in-seconds",
            32,
            lines_of_steps(lambda at: f"{10 * at} : iter_speed 0.50 seconds per iteration | Loss: 0.1{at}"),
        ),
        _case(  # rl_games
            "total-of-three",
            78001,
            lines_of_steps(
                lambda at: (
                    f"fps step: {112900 + at} fps step and policy inference: {104300 + at} fps total: {78000 + at % 3} "
                    f"epoch: {at}/150 frames: {65536 * (at - 1)}"
                )
            ),
            unit="frames/s",
            given=Facts(),
        ),
        _case(  # RSL-RL: a step of the environments is no step of the learner
            "steps-of-environments",
            65530,
            lines_of_steps(
                lambda at: (
                    f"######\n Learning iteration {at}/1500 \n\n  Computation: {65500 + at % 90} steps/s (collection: "
                    f"0.9{at % 10}s, learning 0.6{at % 10}s)\n  Mean reward: {at / 10:.2f}\n------\n"
                    f"  Total timesteps: {98304 * at}\n  Iteration time: 1.50s\n"
                )
            ),
            given=Facts(),
        ),
        _case(
            "per-second-in-words",
            8193,
            lines_of_steps(lambda at: f"step {at} loss 2.1 Tokens per second: {8192 + at % 3}"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(
            "kilo",
            262100,
            lines_of_steps(lambda at: f"step {at} | loss 2.1 | 262.{at % 3} ktok/s"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(
            "under-second",
            8193.5,
            lines_of_steps(lambda at: f"train_step loss=2.1 step={at} throughput_tok_s={8192 + at % 3}.5"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(
            "under-seconds-of-a-step",
            None,
            lines_of_steps(lambda at: f"iter {at} loss 2.1 iter_s 0.50"),
            given=Facts(),
        ),
        _case(  # Llama cookbook
            "bar-of-many-words",
            16,
            "".join(
                f"Training Epoch: 1/3, step {at}/388 completed (loss: {1 + at / 1000}): {at // 4}%|###   | "
                f"{at}/388 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\r"
                for at in range(11, 388)
            ),
        ),
        _case(  # openpi: the time is that of all steps since the line before, as the time of day shows
            "time-of-an-interval-by-the-time-of-day",
            32,
            "".join(
                f"{START + timedelta(seconds=50 * at):%H:%M:%S} INFO iter={100 * at} loss=0.0512 time=50.{at % 9}s\n"
                for at in range(1, 60)
            ),
        ),
        _case(
            "loading-is-used-last",
            64.4,
            lines_of_steps(
                lambda at: (
                    f"step {at} loss 2 data throughput 5000.{at % 9} samples/s, train throughput 64.{at % 9} samples/s"
                )
            ),
            given=Facts(),
        ),
        _case(  # AST
            "time-of-a-sample",
            None,
            lines_of_steps(
                lambda at: f"Epoch: [1][{at}/300] Per Sample Total Time 0.1{at:02} Train Loss 0.1234"
            ),
        ),
        _case(
            "micro-steps",
            31.8,
            "".join(
                "".join(f"  micro step {part}/4 loss 2.1 time 0.125{at % 9}\n" for part in (1, 2, 3, 4))
                + f"step {at} loss 2.1 time 0.50{at % 9}\n"
                for at in range(1, 60)
            ),
        ),
        _case(
            "drawn-table",
            8193,
            "┃ step ┃ loss ┃ tok/s ┃\n"
            + lines_of_steps(lambda at: f"│ {at:4} │ 2.123 │ {8192 + at % 3:,} │"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(
            "tokens-over-elapsed",
            8192,
            lines_of_steps(lambda at: f"step {at} | loss 2.1 | tokens {16384 * at:,} | elapsed {2 * at}.0s"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(  # a file's name is no word of training
            "validation-by-train.py",
            31.8,
            "".join(
                f"train.py:80] step {at} loss 2.1 step_time 0.50{at % 9}\n"
                + "".join(f"train.py:99] val step {one} loss 2.1 step_time 0.1{one}\n" for one in range(2))
                for at in range(1, 60)
            ),
        ),
        _case(
            "device-behind-the-name",
            4 * 8192,
            lines_of_steps(
                lambda at: f"step={at} loss=2.12 memory(GiB)=45.0 wps(per GPU)={8190 + at % 5:,} tflops=400.1"
            ),
            unit="tokens/s",
            given=Facts(gpus=4),
        ),
        _case(
            "unit-behind-the-name",
            31.8,
            lines_of_steps(
                lambda at: f"Training step {at} | loss: 2.1 | mfu 40.1 | iter time (sec) 0.50{at % 9}"
            ),
        ),
        _case(  # docker compose
            "bar-of-a-service",
            16,
            "".join(
                f"trainer-1  | Train step: {at // 4}%|###   | {at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\n"
                for at in range(1, 300)
            ),
        ),
        _case(  # GPT-2 courses
            "average-is-used-last",
            12501,
            lines_of_steps(
                lambda at: (
                    f"Ep 1, Step {15 * at:06}, Train: 5.6, Val: 5.7, Step tok/sec: {12500 + at % 3}, "
                    f"Global avg tok/sec: {9000 + 10 * at}"
                )
            ),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(  # tinygrad's LLaMA
            "unit-of-a-step-in-words",
            31.8,
            lines_of_steps(
                lambda at: (
                    f"{at:5} 0.50{at % 9} s step, 0.45{at % 9} s gbs, 0.04 s optim, 2.1{at} loss, 0.01 LR"
                )
            ),
        ),
        _case(  # MLX-LM, whose table has an arrow for better or worse
            "table-with-signs",
            8193,
            "  iter   train_loss     tok/s     tokens\n"
            + lines_of_steps(
                lambda at: (
                    f"  {10 * at:>4}    2.{at:03} {'▼▲'[at % 2]}    {8192 + at % 3:,}    {8.2 * at:.1f}k"
                )
            ),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(  # PhysicsNeMo
            "time-per-iteration-of-an-epoch",
            31.8,
            "".join(
                f"[{START + timedelta(seconds=6 * at):%H:%M:%S} - train - INFO] Epoch {at} Metrics: loss = 1.234e-03\n"
                f"[{START + timedelta(seconds=6 * at + 5):%H:%M:%S} - train - INFO] Epoch Execution Time: 5.120e+00s, "
                f"Time/Iter: 5.0{at % 9}0e+02ms\n"
                for at in range(1, 60)
            ),
        ),
        _case(  # torchtune
            "bar-with-lines-in-its-words",
            16,
            "".join(
                f"1|{at}|Loss: 1.{at:03}: {at // 4}%|###   | {at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\r"
                for at in range(11, 388)
            ),
        ),
        _case(  # OpenRLHF: a step has a generation, too
            "step-with-a-generation",
            16 / 60,
            "".join(
                f"INFO {START + timedelta(minutes=at):%m-%d %H:%M:%S} ppo_trainer.py:547] Global step {at}: "
                f"{{'actor_lr': 5e-07, 'reward': 0.4{at}, 'timing/ppo_train': 18.5, 'timing/generation': 35.4}}\n"
                for at in range(1, 60)
            ),
        ),
        _case(  # RWKV-LM
            "thousands-behind-a-bar",
            262_100,
            "".join(
                f"\rEpoch 0: {at // 4}%|##  | {at}/400 [{at // 60:02}:{at % 60:02}<05:00,  1.00it/s, loss=4.123, "
                f"REAL it/s=1.000, Kt/s=262.{at % 3}]"
                for at in range(11, 388)
            )
            + "\n",
            unit="tokens/s",
            given=Facts(),
        ),
        _case(  # DeepSpeed-Chat, step 1
            "latency-of-a-step",
            257,
            lines_of_steps(
                lambda at: (
                    f"Epoch: 0, Step: {at}, Rank: 0, loss = 2.{at:02}\n"
                    f"Model Parameters: 1.429 B, Latency: 0.50s, TFLOPs: 45.10, Samples/sec: {256 + at % 3}.00, "
                    "Time/seq 0.00s, Batch Size: 128, Sequence Length: 512"
                )
            ),
            given=Facts(),
        ),
        _case(  # PaddleSpeech
            "rate-of-the-named-rank",
            4 * 65,
            lines_of_steps(
                lambda at: (
                    f"[INFO] [trainer.py:214] - Train: Rank: 0, epoch: 0, step: {100 * at}, loss: 1.{at}, "
                    f"batch_size: 32, ips: {64 + at % 3}.0 samples/s"
                )
            ),
            given=Facts(gpus=4),
        ),
        _case(
            "rank-of-an-adapter",
            65,
            lines_of_steps(lambda at: f"step {at} loss 2.1 lora rank 8 {64 + at % 3} samples/s"),
            given=Facts(),
        ),
        _case(  # V-JEPA 2: a mean that is near its end in the last line, and far from it on average
            "mean-that-has-arrived",
            32,
            lines_of_steps(
                lambda at: (
                    f"[1, {10 * at:5}] loss: 0.5{at:02} [mem: 1.2e+04] [iter: {500 * (1 + 10 / (10 * at)):.1f} ms]"
                )
            ),
        ),
        _case(
            "eta-in-letters",
            31.8,
            lines_of_steps(
                lambda at: f"step {at} | loss 2.1 | 0.50{at % 9} s/step | eta {3 - at // 20}h{at % 60}m"
            ),
        ),
        _case(  # pytorch-cifar
            "bar-in-brackets",
            31.8,
            "".join(
                f" [{'=' * (at // 6)}>{'.' * (65 - at // 6)}]  Step: 50{at % 9}ms | Tot: {at // 2}s{at % 2 * 500}ms | "
                f"Loss: 1.234 | Acc: 31.234% ({at}/{128 * at})\b\b\b\b {at}/391 \r"
                for at in range(1, 300)
            ),
        ),
        _case(  # CenterNet
            "total-so-far",
            16,
            "".join(
                f"ctdet/default |{'#' * (at // 20):32}| train: [1][{at}/3696]|Tot: 0:{at // 60:02}:{at % 60:02} |ETA: "
                f"1:0{at % 10}:44 |loss 1.234 |Data 0.001s(0.002s) |Net 1.00{at % 9}s \r"
                for at in range(1, 600)
            ),
        ),
        _case(  # ssd.pytorch
            "timer",
            31.8,
            lines_of_steps(lambda at: f"timer: 0.50{at % 9} sec.\niter {10 * at} || Loss: 6.1{at} ||"),
        ),
        _case(  # tianshou
            "number-sign-before-a-bar",
            16,
            "".join(
                f"Epoch #1: {at // 4}%|##  | {at}/400 [{at // 60:02}:{at % 60:02}<05:00,  1.00it/s, n/ep=1, rew=12.3]\r"
                for at in range(11, 388)
            ),
        ),
        _case(  # PyTorch Geometric: the bar counts nodes
            "bar-of-samples",
            102.4,
            "".join(
                f"Epoch 01: {at // 2}%|##  | {1024 * at}/196615 [{at // 6:02}:{10 * at % 60:02}<05:00, 102.40it/s]\r"
                for at in range(1, 193)
            ),
            given=Facts(gpus=1, batch_per_device=1024),
        ),
        _case(
            "columns-of-two-words",
            8193,
            "┏━━━━━━┳━━━━━━┳━━━━━━━━━━┳━━━━━━━━━┓\n┃ Step ┃ Loss ┃ Time (s) ┃ Tok/s   ┃\n"
            "┡━━━━━━╇━━━━━━╇━━━━━━━━━━╇━━━━━━━━━┩\n"
            + lines_of_steps(lambda at: f"│ {at:<4} │ 2.12 │ 1.01{at % 9}    │ {8192 + at % 3:<7,} │"),
            unit="tokens/s",
            given=Facts(),
        ),
        _case(  # kubectl logs --timestamps
            "two-stamps",
            16 / 20.05,
            "".join(
                f"{START + timedelta(seconds=20 * at):%Y-%m-%dT%H:%M:%S.123456789Z} "
                f"{START + timedelta(seconds=20 * at):%Y-%m-%d %H:%M:%S,123} - INFO - step {at} step_time 20.0{at} s\n"
                for at in range(10, 90)
            ),
        ),
        _case(
            "seconds-since-1970",
            8,
            lines_of_steps(lambda at: f"{1748942067.5 + 2 * at:.3f} step {at} loss 2.1"),
        ),
        _case(
            "speed-in-minutes",
            160,
            lines_of_steps(lambda at: f"step {at} loss 2.1 throughput: {9600 + at % 3} samples/min"),
            given=Facts(),
        ),
        _case(  # nerfstudio: cells between two blanks, of which a heading names the first number
            "cells-with-units-and-a-heading",
            90_000,
            "Step (% Done)       Train Iter (time)    ETA (time)           Train Rays / Sec    \n"
            + lines_of_steps(
                lambda at: (
                    f"{f'{10 * at} ({at / 30:.2f}%)':<20}{f'45.{at:03} ms':<21}"
                    f"{f'2{at % 3} m, 33 s':<21}{'90.00 K':<20}"
                )
            ),
        ),
        _case(  # tensorpack
            "bar-without-a-blank",
            16,
            lines_of_steps(
                lambda at: f" {at}%|##  |{5 * at}/500[{at * 5 // 60:02}:{at * 5 % 60:02}<05:00, 1.00it/s]",
                count=90,
            ),
        ),
        _case(  # DreamerV3
            "fps-by-a-path",
            512,
            lines_of_steps(
                lambda at: f"[Step {1000 * at}] / fps/policy 30.{at:02} / fps/train 512.00 / train/loss 2.31"
            ),
            unit="frames/s",
        ),
        _case(  # video diffusion
            "videos",
            0.5,
            lines_of_steps(lambda at: f"step: {at} | loss: 0.1{at:02} | videos/s: 0.50 | frames/s: 40.5"),
        ),
        _case(  # TensorBoard's download of a scalar
            "heading-of-several-words-between-commas",
            32,
            "Wall time,Step,Value\n"
            + lines_of_steps(lambda at: f"{1.77e9 + 5 * at:.6f},{10 * at},2.3{at:02}"),
        ),
        _case(  # Rich, with the time since the start and the time to go
            "two-durations",
            8,
            lines_of_steps(
                lambda at: (
                    f"Training ━━━━━╸━━━━━ {at}/200 • 0:{2 * at // 60:02}:{2 * at % 60:02} • 0:0{5 - at // 60}:00 "
                    f"• 0.50it/s loss: 2.3{at:02}"
                )
            ),
        ),
    ],
)
def test_lines_of_public_programs_are_guessed(
    tmp_path: Path, text: str, given: Facts, value: float | None, unit: str
) -> None:
    row = guessed_row(tmp_path, text, given)

    assert row["throughput"] == (None if value is None else pytest.approx(value, rel=0.01))
    assert row["unit"] in (unit, None)
