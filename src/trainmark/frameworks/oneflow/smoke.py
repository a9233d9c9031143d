"""Trains a tiny network for one step with OneFlow; exits 0 if the loss is finite and became smaller."""

import json
import math
import sys

import oneflow as flow
from oneflow import nn


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    flow.manual_seed(0)
    device = "cuda" if flow.cuda.is_available() else "cpu"
    body = [nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*body, nn.Linear(8, 4)).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    inputs = flow.randn(8, 3, 16, 16, device=device)
    labels = flow.tensor([index % 4 for index in range(8)], dtype=flow.int64, device=device)
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1)
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    before = float(loss.item())
    after = float(criterion(model(inputs), labels).item())
    answer = {"device": device, "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


sys.exit(main())
