"""Ranks that exchange a number at every step, as training does, and of which one goes wrong as it is told.

They meet by sockets, or with ``--torch=FOLDER``, where PyTorch is, by torch.distributed. Rank 0 then writes the events
of the fake training program. ``--behaviour`` is ``well``, ``lasts-SECONDS``, ``late-SECONDS`` (before they meet), or
what rank R does at step S: ``raises-R-S``, ``exits-R-S``, ``hangs-R-S``, ``grows-R-S``.
"""

import os
import runpy
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ADDRESS = (os.environ.get("MASTER_ADDR", ""), int(os.environ.get("MASTER_PORT", "0")))
STEP_S, STEPS = 0.02, 12


def said(name: str, otherwise: str) -> str:
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}=")), otherwise)


class Sockets:
    """Rank 0 adds up what all say, and tells all."""

    def __init__(self) -> None:
        if RANK == 0:
            with socket.create_server(ADDRESS) as server:
                self.links = [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
        else:
            self.links = [patiently().makefile("rw")]

    def all_reduce(self, number: int) -> int:
        total = number
        if RANK:
            self.tell(number)
        heard = [link.readline() for link in self.links]
        if not all(heard):
            raise ConnectionError("Connection closed by peer")
        if RANK:
            return int(heard[0])
        total += sum(map(int, heard))
        self.tell(total)
        return total

    def tell(self, number: int) -> None:
        for link in self.links:
            link.write(f"{number}\n")
            link.flush()


def patiently() -> socket.socket:
    for _ in range(1200):
        try:
            return socket.create_connection(ADDRESS)
        except OSError:
            time.sleep(0.05)
    sys.exit("nobody was there to meet")


class Gloo:
    """torch.distributed as a training program has it."""

    def __init__(self) -> None:
        sys.path.append(said("torch", ""))
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        distributed.init_process_group("gloo", timeout=timedelta(minutes=30))
        self.torch: Any = torch

    def all_reduce(self, number: int) -> int:
        one = self.torch.tensor([number])
        self.torch.distributed.all_reduce(one)
        return int(one.item())


def grow() -> NoReturn:
    held = []
    while True:
        held.append(os.urandom(1 << 20) * 16)


def go_wrong(how: str) -> None:
    sys.stdout.write(f"rank {RANK} goes wrong at {time.time()}\n")
    sys.stdout.flush()
    if how == "raises":
        raise ValueError("this is why")
    if how == "exits":
        os._exit(3)
    if how == "hangs":
        time.sleep(600)
    if how == "grows":
        grow()


def main() -> None:
    behaviour = said("behaviour", "well").split("-")
    how, at = behaviour[0], (tuple(map(int, behaviour[1:])) if len(behaviour) == 3 else None)
    if how == "late":
        time.sleep(float(behaviour[1]))
    meeting = Gloo() if said("torch", "") and WORLD > 1 else Sockets()
    steps = int(float(behaviour[1]) / STEP_S) if how == "lasts" else max(STEPS, at[1] if at else 0)
    for step in range(1, steps + 1):
        time.sleep(STEP_S)
        if at == (RANK, step):
            go_wrong(how)
        assert meeting.all_reduce(1 + RANK) == WORLD * (WORLD + 1) // 2
        sys.stdout.write(f"step {step}/{steps}\n")
        sys.stdout.flush()
    if RANK == 0:
        # What has a meaning there has none here, and the other way round.
        sys.argv = [word for word in sys.argv if not word.startswith(("--behaviour=", "--torch="))]
        runpy.run_path(str(Path(__file__).with_name("fake_training.py")), run_name="__main__")


main()
