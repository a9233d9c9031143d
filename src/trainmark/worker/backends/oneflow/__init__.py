"""The backend of OneFlow, 0.9 or later.

Written against OneFlow's documented interface and its public source, and **not yet run on OneFlow itself**: no wheel of
it could be had from the package index. Its tests put PyTorch in the place of the names that mean the same in both. So
they show that the models, the loss, the recipe, real data and the worker's own flow are right. They cannot show
what PyTorch does not share: ``nn.Graph``, mixed precision, several ranks, CUDA, TF32 switches, and the speed.
"""

from ...core.outcomes import LOST_PEER, OUT_OF_MEMORY, Known, lost_peer, out_of_memory

__all__ = ["FAILURES"]

# OneFlow's errors are RuntimeErrors whose text contains the C++ call stack.
FAILURES = (
    Known((Exception,), OUT_OF_MEMORY, out_of_memory),
    Known((RuntimeError, ConnectionError), LOST_PEER, lost_peer),
)
