"""A tiny training program in one of six libraries, with switches that make it slower (planted_handicaps.py).

Each step multiplies matrices, as a layer does forward and backward, after waiting ``--load`` seconds for its data.
"""

import argparse
import sys
import time
from collections.abc import Callable

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=("torch", "jax", "tensorflow", "paddle", "mxnet", "numpy"))
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=192)
parser.add_argument("--load", type=float, default=0.001)
parser.add_argument("--dtype", default="float32")
parser.add_argument("--evaluate", type=int, default=0, help="evaluations after each step")
given = parser.parse_args()

import numpy as np  # noqa: E402

values = np.random.default_rng(0).standard_normal((given.size, given.size)).astype(given.dtype)


def multiply_with(library: str) -> Callable[[], float]:
    """Return a function that multiplies the matrix with itself three times and waits for the result."""
    if library == "torch":
        import torch

        torch.set_num_threads(1)
        matrix = torch.from_numpy(values)
        return lambda: float((matrix @ matrix @ matrix @ matrix)[0, 0])
    if library == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        matrix = jax.numpy.asarray(values)
        return lambda: float((matrix @ matrix @ matrix @ matrix)[0, 0])
    if library == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        matrix = tf.constant(values)
        return lambda: float((matrix @ matrix @ matrix @ matrix)[0, 0])
    if library == "paddle":
        import paddle

        matrix = paddle.to_tensor(values, place=paddle.CPUPlace())
        return lambda: float((matrix @ matrix @ matrix @ matrix)[0, 0])
    if library == "mxnet":
        import mxnet

        matrix = mxnet.nd.array(values, dtype=given.dtype)
        dot = mxnet.nd.dot
        return lambda: float(dot(dot(dot(matrix, matrix), matrix), matrix)[0, 0].asscalar())
    return lambda: float((values @ values @ values @ values)[0, 0])


multiply = multiply_with(given.library)
multiply()
for step in range(given.steps):
    began = time.perf_counter()
    time.sleep(given.load)
    data_s = time.perf_counter() - began
    for _ in range(1 + given.evaluate):
        multiply()
    # PLANTED
    took_s = time.perf_counter() - began
    sys.stdout.write(
        f"step {step} | loss {1 / (step + 1):.4f} | step_time {took_s:.5f} s | data_time {data_s:.5f} s\n"
    )
    sys.stdout.flush()
