# ruff: noqa: T201 (it prints, as the program that it stands for does)
"""A rank that ``multiproc.py`` starts, which prints what NVIDIA's PyTorch ConvNets print."""

import os
from datetime import UTC, datetime

from training import arguments, train


def log(words: str) -> None:
    if RANK == 0:
        print(f"DLL {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} - {words}", flush=True)


given = arguments()
RANK = int(os.environ["RANK"])
given.ranks = int(os.environ["WORLD_SIZE"])
given.meet = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
print(f"rank {RANK} of {given.ranks}, {os.environ['LOCAL_RANK']} of its node")
log(
    f"PARAMETER data : synthetic  data_backend : syntetic  arch : tiny  batch_size : {given.batch}  "
    f"memory_format : nchw  amp : False  world_size : {given.ranks} "
)
rates = []
for step in train(RANK, given):
    rates.append(given.ranks * given.batch / step.seconds)
    log(
        f"Epoch: 0 Iteration: {step.number}  train.loss : {step.loss} None train.compute_ips : {rates[-1]} images/s "
        f"train.total_ips : {rates[-1]} images/s train.lr : 0.1  "
    )
log(f"Summary: train.loss : {step.loss} None train.total_ips : {sum(rates) / len(rates)} images/s")
print("Experiment ended")
