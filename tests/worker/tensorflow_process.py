"""Runs pieces of Python in the environment of TensorFlow."""

import json
import os
import subprocess
from typing import Any

from worker_process import WORKER, rank_variables

from frameworks import framework_python
from trainmark.placement import free_ports

TENSORFLOW = "tensorflow"

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}

LOADED = f"""
import sys; sys.path.insert(0, {str(WORKER)!r}); import start, json
import trainmark_worker.tensorflow
import numpy as np, tensorflow as tf
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import Place, place_from
from trainmark_worker.tensorflow.image_classification import open_training

ALONE = place_from({{}})
SMALL = "--framework tensorflow --model mobilenet_v1 --batch-per-device 2 --image-size 32 --layout nhwc --threads 1"

def settings(*more):
    return parse([*SMALL.split(), *more], 1)

def refused(work):
    try:
        work()
    except RunError as error:
        return [error.outcome, error.reason]
"""


def in_tensorflow(code: str, *arguments: str) -> Any:
    """Run a piece of Python beside TensorFlow, with the worker loaded; return the JSON that it prints last."""
    done = subprocess.run(
        [framework_python(TENSORFLOW), "-c", LOADED + code, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def in_tensorflow_together(code: str, *arguments: str) -> list[Any]:
    """Run a piece of Python as each of two ranks; return the JSON that each prints last."""
    port = free_ports(8)
    ranks = [
        subprocess.Popen(
            [framework_python(TENSORFLOW), "-c", LOADED + code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET, **rank_variables(rank, 2, port)},
        )
        for rank in range(2)
    ]
    try:
        ended = [(rank, *rank.communicate(timeout=300)) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, _, stderr in ended:
        assert rank.returncode == 0, stderr
    return [json.loads(stdout.splitlines()[-1]) for _, stdout, _ in ended]
