"""Trains a tiny network for one step with PaddlePaddle; exits 0 if the loss is finite and became smaller."""

import json
import math
import sys

import paddle
from paddle import nn


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    paddle.seed(0)
    device = "cuda" if paddle.device.is_compiled_with_cuda() and paddle.device.cuda.device_count() else "cpu"
    paddle.device.set_device("gpu:0" if device == "cuda" else "cpu")
    body = [nn.Conv2D(3, 8, 3, stride=2), nn.BatchNorm2D(8), nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten()]
    model = nn.Sequential(*body, nn.Linear(8, 4))
    inputs = paddle.randn([8, 3, 16, 16])
    labels = paddle.arange(8) % 4
    optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    before = loss.item()
    after = nn.functional.cross_entropy(model(inputs), labels).item()
    answer = {"device": device, "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


sys.exit(main())
