"""Trains a tiny network for one step with MindSpore; exits 0 if the loss is finite and became smaller."""

import json
import math
import os
import sys
import tempfile

import numpy as np


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    # MindSpore writes folders of its own into the working directory.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        before, after = _train()
        os.chdir(os.sep)
    answer = {"device": "cpu", "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


def _train() -> "tuple[float, float]":
    import mindspore as ms
    from mindspore import nn, ops

    ms.set_device("CPU")
    ms.set_seed(0)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    random = np.random.default_rng(0)
    body = [nn.Conv2d(3, 8, 3, stride=2, pad_mode="pad", padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    features, classifier = nn.SequentialCell(body), nn.Dense(8, 4)
    model = nn.CellList([features, classifier])
    model.set_train()
    inputs = ms.Tensor(random.standard_normal((8, 3, 16, 16)).astype(np.float32))
    labels = ms.Tensor(np.arange(8, dtype=np.int32) % 4)
    optimizer = nn.SGD(model.trainable_params(), learning_rate=0.1)

    def loss_of(inputs: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        # A tuple of axes is what a MindSpore that was compiled for another numpy cannot take.
        return ops.cross_entropy(classifier(ops.mean(features(inputs), (2, 3))), labels)

    gradients = ms.value_and_grad(loss_of, None, optimizer.parameters)
    loss, found = gradients(inputs, labels)
    optimizer(found)
    return float(loss.asnumpy()), float(loss_of(inputs, labels).asnumpy())


sys.exit(main())
