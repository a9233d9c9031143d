"""Put in the place of the module ``oneflow``: PyTorch's names where OneFlow has the same ones, and nothing more.

What OneFlow has and PyTorch has not (``nn.Graph``, ``comm``, ``amp``'s scalers, …) is missing here on purpose: a
test that would need it fails instead of showing something about PyTorch.
"""

import sys
from types import SimpleNamespace

import torch
import torch.utils.data

__version__ = "1.0.0+pytorch.stands.in"

nn, optim, utils = torch.nn, torch.optim, torch.utils
device, tensor, from_numpy = torch.device, torch.tensor, torch.from_numpy
flatten, no_grad, manual_seed, set_num_threads = (
    torch.flatten,
    torch.no_grad,
    torch.manual_seed,
    torch.set_num_threads,
)
float32, int64 = torch.float32, torch.int64
cuda = SimpleNamespace(is_available=lambda: False)

# A process on its own; PyTorch on a CPU is never behind the host.
env = SimpleNamespace(get_world_size=lambda: 1)
_oneflow_internal = SimpleNamespace(eager=SimpleNamespace(Sync=lambda: None))

for name, module in {"nn": nn, "optim": optim, "utils": utils, "utils.data": utils.data}.items():
    sys.modules[f"oneflow.{name}"] = module
