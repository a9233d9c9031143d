"""A git repository of the tests' own, with a small program in it that really trains."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = '''\
"""Fits a linear model by stochastic gradient descent and prints what PyTorch's examples/imagenet prints."""

import argparse
import random
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int)
arguments.add_argument("--batch", type=int)
arguments.add_argument("--lr", type=float)
given = arguments.parse_args()

WIDTH = 400
chance = random.Random(1)
truth = [chance.gauss(0, 1) for _ in range(WIDTH)]
weights = [0.0] * WIDTH
print("=> creating model 'VERSION'")
average = 0.0
for step in range(given.steps):
    began = time.perf_counter()
    gradient, loss = [0.0] * WIDTH, 0.0
    for _ in range(given.batch):
        sample = [chance.gauss(0, 1) for _ in range(WIDTH)]
        error = sum(x * (w - t) for x, w, t in zip(sample, weights, truth))
        gradient = [g + 2 * error * x for g, x in zip(gradient, sample)]
        loss += error * error
    weights = [w - given.lr / given.batch * g for w, g in zip(weights, gradient)]
    seconds = time.perf_counter() - began
    average += (seconds - average) / (step + 1)
    print(f"Epoch: [0][{step:3d}/{given.steps}]\\tTime {seconds:6.4f} ({average:6.4f})\\tData  0.000 ( 0.000)\\t"
          f"Loss {loss / given.batch:.4e} ({loss / given.batch:.4e})\\tAcc@1   0.00 (  0.00)", flush=True)
open("checkpoint", "w").write(repr(weights))
'''

CARD: dict[str, Any] = {
    "name": "linear",
    "description": "a linear model in a repository of the tests",
    "framework": "python",
    "environment": "system",
    "launcher": "process",
    "log_format": "pytorch-imagenet",
    "scaling": {"learning_rate": 0.01, "batch": 100},
    "command": ["{source}/train.py", "--steps", "{steps}", "--lr", "{learning_rate}"],
    "axes": {
        "model": {"values": {"good": []}},
        "batch_per_device": {"flags": ["--batch", "{value}"]},
        "device": {},
    },
    "options": {},
    "expects": ["checkpoint"],
    "task": "image-classification",
}

WHO = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A"}
WHO |= {"GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(frozen=True)
class Repository:
    """A repository on this machine that is reached by a file:// address."""

    folder: Path

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words],
            env={**os.environ, **WHO},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.args, done.returncode, done.stderr)
        return done.stdout.strip()

    def commit(self, files: dict[str, str]) -> str:
        """Commit these files, and return the commit."""
        if not self.folder.exists():
            self.folder.mkdir()
            self.git("init", "--quiet", "--initial-branch", "main")
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--", *files)
        self.git("commit", "--quiet", "--message", "a commit")
        return self.git("rev-parse", "HEAD")


def program(version: str) -> str:
    return PROGRAM.replace("VERSION", version)


def card(repository: Repository, commit: str | None, **changes: Any) -> dict[str, Any]:
    """Return a card of the repository's program; without a commit the cases must name one."""
    source = {"kind": "git", "url": repository.url, "folder": "code"}
    return {**CARD, "source": {**source, **({"commit": commit} if commit else {})}, **changes}
