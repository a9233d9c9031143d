"""Trains a small network with PyTorch and gloo, or a line with neither; the other programs start it, a rank each."""

import argparse
import hashlib
import os
import random
import signal
import socket
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


class Meeting:
    """Ranks that meet at the first one by sockets: it averages the numbers of all, and all have the mean."""

    def __init__(self, rank: int, ranks: int, meet: str) -> None:
        host, _, port = meet.rpartition(":")
        self._first = rank == 0
        if self._first:
            with socket.create_server((host, int(port)), backlog=ranks) as server:
                self._others = [server.accept()[0].makefile("rw") for _ in range(ranks - 1)]
        else:
            self._others = [patiently((host, int(port))).makefile("rw")]

    def mean(self, numbers: list[float]) -> list[float]:
        if not self._first:
            self._send(numbers)
            return self._receive()[0]
        all_numbers = [numbers, *self._receive()]
        mean = [sum(column) / len(all_numbers) for column in zip(*all_numbers, strict=True)]
        self._send(mean)
        return mean

    def _send(self, numbers: list[float]) -> None:
        for other in self._others:
            other.write(" ".join(map(repr, numbers)) + "\n")
            other.flush()

    def _receive(self) -> list[list[float]]:
        lines = [other.readline() for other in self._others]
        if not all(lines):
            raise ConnectionError("Connection closed by peer")
        return [[float(word) for word in line.split()] for line in lines]


def patiently(address: tuple[str, int]) -> socket.socket:
    for _ in range(1200):
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(0.05)
    sys.exit("nobody was there to meet")


def train_line(rank: int, given: argparse.Namespace) -> Iterator[Step]:
    """Fit a line to random points, and give each step; the weights' digest is left in ``weights.rankN``.

    No framework is imported, so that a rank begins at once: this is for tests of who starts and ends the ranks.
    """
    chance, meeting = random.Random(rank), Meeting(rank, given.ranks, given.meet)
    weights = meeting.mean([chance.random(), chance.random()])
    for number in range(given.steps):
        began = time.perf_counter()
        time.sleep(0.01)
        points = [chance.random() for _ in range(given.batch)]
        errors = [weights[0] + weights[1] * point - (2 + 3 * point) for point in points]
        gradients = meeting.mean(
            [sum(errors), sum(error * point for error, point in zip(errors, points, strict=True))]
        )
        weights = [
            weight - 0.5 * gradient / given.batch for weight, gradient in zip(weights, gradients, strict=True)
        ]
        loss = sum(error * error for error in errors) / given.batch
        yield Step(number, loss, time.perf_counter() - began)
        if number == 3 and rank == 1:
            misbehave(given.behaviour)
    Path(f"weights.rank{rank}").write_text(hashlib.sha256(repr(weights).encode()).hexdigest())


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
