# ruff: noqa: T201 (it prints, as the program that it stands for does)
"""Spawns its ranks as PyTorch's examples/imagenet does (``--multiprocessing-distributed``), and prints its lines."""

import argparse

from training import arguments, train


def work(rank: int, given: argparse.Namespace) -> None:
    print(f"rank {rank} of {given.ranks}")
    print("=> creating model 'tiny'")
    average = 0.0
    for step in train(rank, given):
        average += (step.seconds - average) / (step.number + 1)
        print(
            f"Epoch: [0][{step.number:3d}/{given.steps}]\tTime {step.seconds:6.4f} ({average:6.4f})\t"
            f"Data  0.000 ( 0.000)\tLoss {step.loss:.4e} ({step.loss:.4e})\tAcc@1   0.00 (  0.00)"
        )


if __name__ == "__main__":
    from torch import multiprocessing

    asked = arguments()
    multiprocessing.spawn(work, nprocs=asked.ranks, args=(asked,))
