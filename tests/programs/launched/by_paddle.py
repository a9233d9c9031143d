# ruff: noqa: T201 (it prints, as the program that it stands for does)
"""A rank that ``paddle.distributed.launch`` starts, which prints what PaddleClas prints."""

import hashlib
import os
import time
from datetime import datetime
from pathlib import Path

from training import arguments, begin, train_line

given = arguments()
RANK = int(os.environ["PADDLE_TRAINER_ID"])
RANKS = int(os.environ["PADDLE_TRAINERS_NUM"])


def log(words: str) -> None:
    if RANK == 0:
        print(f"[{datetime.now():%Y/%m/%d %H:%M:%S}] ppcls INFO: {words}", flush=True)


begin(given.behaviour)
if given.behaviour != "well":
    # Whose rank fails, and who is then ended, is the launcher's doing alone.
    for _ in train_line(RANK, given):
        pass
import paddle  # noqa: E402
from paddle import distributed, nn  # noqa: E402

distributed.init_parallel_env()
print(f"rank {RANK} of {RANKS}")
paddle.seed(RANK)
network = paddle.DataParallel(
    nn.Sequential(nn.Conv2D(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(16, 10))
)
optimizer = paddle.optimizer.Momentum(0.1, parameters=network.parameters())
for section in ("Global : ", "    epochs : 1", "DataLoader : ", "    Train : "):
    log(section)
log(f"    batch_size : {given.batch}")
log("Eval : ")
started = time.perf_counter()
for number in range(given.steps):
    began = time.perf_counter()
    images = paddle.randn([given.batch, 3, 96, 96])
    labels = paddle.randint(0, 10, [given.batch])
    loss = nn.functional.cross_entropy(network(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    seconds, average = time.perf_counter() - began, (time.perf_counter() - started) / (number + 1)
    log(
        f"[Train][Epoch 1/1][Iter: {number}/{given.steps}]lr: 0.1, CELoss: {float(loss):.5f}, loss: {float(loss):.5f}, "
        f"batch_cost: {average:.5f}s, reader_cost: 0.00010, ips: {given.batch / average:.5f} samples/s, eta: 0:00:01"
    )
log("[Train][Epoch 1/1][Avg]CELoss: 2.3, loss: 2.3")
weights = b"".join(weight.numpy().tobytes() for weight in network.parameters())
Path(f"weights.rank{RANK}").write_text(hashlib.sha256(weights).hexdigest())
