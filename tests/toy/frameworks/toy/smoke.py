"""Fits one number by one step of gradient descent with numpy."""

import json

import numpy as np

points = np.arange(4.0)
weight = 0.0
before = float(np.mean((weight * points - points) ** 2))
weight -= 0.1 * float(np.mean(2 * (weight * points - points) * points))
after = float(np.mean((weight * points - points) ** 2))
print("TRAINMARK " + json.dumps({"device": "cpu", "loss_before": before, "loss_after": after}))
