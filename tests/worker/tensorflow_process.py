"""Runs pieces of Python, and the equivalence check's steps, in the environment of TensorFlow."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from worker_process import WORKER, Ran, train, train_together

from frameworks import framework_python
from trainmark.equivalence import Observation, worker_flags, write_inputs

TENSORFLOW = "tensorflow"

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}

LOADED = f"""
import sys; sys.path.insert(0, {str(WORKER)!r}); import start, json
import trainmark_worker.tensorflow
import numpy as np, tensorflow as tf
from trainmark_worker.arguments import parse
from trainmark_worker.outcomes import RunError
from trainmark_worker.place import Place, place_from
from trainmark_worker.tensorflow import open_training

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


def observe(
    tmp_path: Path, framework: str, model: str, world_size: int = 1, **flags: str | int | float | Path
) -> Observation:
    """Return the three steps of the equivalence check in a framework; each rank is given the same batch."""
    write_inputs(model, tmp_path / "inputs.npz")
    words = dict(word[2:].split("=", 1) for word in worker_flags(model, tmp_path / "inputs.npz"))
    given: dict[str, Any] = {name.replace("-", "_"): value for name, value in words.items()}
    # The schedule counts images: with as many more of them the rates of the steps stay as they are.
    given["epoch_images"] = int(given["epoch_images"]) * world_size
    given = {"device": "cpu", **given, **flags}
    ran: Ran
    if world_size == 1:
        ran = train(tmp_path, framework, **given)
    else:
        ran, *_ = train_together(tmp_path, framework, **given)
    assert ran.code == 0, ran.stderr
    return Observation.model_validate(ran.last["equivalence"])
