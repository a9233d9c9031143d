"""The backend of OneFlow, 0.9 or later.

Written against OneFlow's documented interface and its public source, and **not yet run on OneFlow itself**: no wheel of
it could be had from the package index. Its tests put PyTorch in the place of the names that mean the same in both. So
they show that the models, the loss, the recipe, real data and the worker's own flow are right. They cannot show
what PyTorch does not share: ``nn.Graph``, mixed precision, several ranks, CUDA, TF32 switches, and the speed.
"""

from .backend import stopped_by

__all__ = ["stopped_by"]
