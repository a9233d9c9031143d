"""Trains a small network with PyTorch on synthetic images, the ranks joined by gloo; the other programs start it."""

import argparse
import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One step: its number from 0, its loss, and the seconds that it took."""

    number: int
    loss: float
    seconds: float


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--meet")
    parser.add_argument("--behaviour", default="well")
    return parser.parse_args()


def begin(behaviour: str) -> None:
    """Say which process this is and on which cores; hang here, deaf to SIGTERM, where that is asked for."""
    for name, value in (("pids", os.getpid()), ("cores", sorted(os.sched_getaffinity(0)))):
        with Path(name).open("a", encoding="ascii") as file:
            file.write(f"{value}\n")
    if behaviour == "hangs":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


def misbehave(behaviour: str) -> None:
    if behaviour == "raises":
        raise ValueError("this is why")
    if behaviour == "is-killed":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "lacks-memory":
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")


def train(rank: int, given: argparse.Namespace) -> Iterator[Step]:
    """Train, and give each step; the weights' digest is left in ``weights.rankN``."""
    begin(given.behaviour)
    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    distributed.init_process_group("gloo", f"tcp://{given.meet}", rank=rank, world_size=given.ranks)
    network = DistributedDataParallel(
        nn.Sequential(
            nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
        )
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for number in range(given.steps):
        began = time.perf_counter()
        images, labels = torch.randn(given.batch, 3, 96, 96), torch.randint(10, (given.batch,))
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield Step(number, loss.item(), time.perf_counter() - began)
        if number == 3 and rank == 1:
            misbehave(given.behaviour)
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()])
    Path(f"weights.rank{rank}").write_text(hashlib.sha256(weights.numpy().tobytes()).hexdigest())
    distributed.barrier()
    distributed.destroy_process_group()
