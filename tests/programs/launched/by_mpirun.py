# ruff: noqa: T201 (it prints, as the program that it stands for does)
"""A rank of OpenMPI, which prints what NVIDIA's TensorFlow ConvNets print under Horovod."""

import os
from datetime import UTC, datetime

from training import arguments, begin, train_line


def say(words: str) -> None:
    if RANK == 0:
        print(words, flush=True)


def log(where: str, words: str) -> None:
    say(f"DLL {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} - {where}{words}")


given = arguments()
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
print(f"rank {RANK} of {os.environ['OMPI_COMM_WORLD_SIZE']}")
log(
    "PARAMETER",
    f" arch : tiny  mode : train  batch_size : {given.batch}  num_iter : {given.steps}  iter_unit : batch ",
)
say(f"Num GPUs {given.ranks}\nPer-GPU Batch Size {given.batch}")
begin(given.behaviour)
rates = []
for step in train_line(RANK, given):
    rates.append(given.ranks * given.batch / step.seconds)
    log(f"(0, {step.number})", f" total_ips : {rates[-1]} ")
log("()", f" train_throughput : {sum(rates) / len(rates)} images/s")
