"""Trains a tiny network for one step with MXNet; exits 0 if the loss is finite and became smaller."""

import json
import math
import sys

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    mx.random.seed(0)
    context = mx.gpu() if mx.context.num_gpus() else mx.cpu()
    model = nn.HybridSequential()
    model.add(
        nn.Conv2D(8, 3, strides=2), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(4)
    )
    model.initialize(mx.init.Xavier(), ctx=context)
    model.hybridize(static_alloc=True, static_shape=True)
    inputs = mx.nd.random.normal(shape=(8, 3, 16, 16), ctx=context)
    labels = mx.nd.arange(8, ctx=context) % 4
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = cross_entropy(model(inputs), labels)
    loss.backward()
    trainer.step(8)
    before = float(loss.mean().asscalar())
    with autograd.train_mode():
        after = float(cross_entropy(model(inputs), labels).mean().asscalar())
    answer = {"device": context.device_type, "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


sys.exit(main())
