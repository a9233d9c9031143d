"""What each model must weigh in every framework: a worker whose model has other parameters is not started."""

from __future__ import annotations

from typing import Dict, NamedTuple


class Architecture(NamedTuple):
    """The trainable parameters below the classifier, and the number of features that it gets."""

    backbone_parameters: int
    features: int

    def parameters(self, classes: int) -> int:
        """Return the trainable parameters with a classifier (weights and biases) of ``classes`` classes."""
        return self.backbone_parameters + (self.features + 1) * classes


# With 1000 classes: 25,557,032 and 4,231,976.
ARCHITECTURES: Dict[str, Architecture] = {
    "resnet50_v1.5": Architecture(backbone_parameters=23_508_032, features=2048),
    "mobilenet_v1": Architecture(backbone_parameters=3_206_976, features=1024),
}
