"""torch's SGD in two kernels of our own, which read gradients in 16 bits, and keep copies of weights in that type."""

from collections.abc import Sequence
from typing import Any

import torch

from ..core.settings import Recipe
from .kernels.update import Moved, Table
from .optimizers import Decays, groups_of


class FusedCheckScaler(torch.amp.GradScaler):
    """torch's scaler of the loss; whether all gradients are finite it asks the optimizer."""

    def _unscale_grads_(
        self, optimizer: Any, _inv_scale: Any, found_inf: Any, _allow_fp16: bool
    ) -> dict[Any, Any]:
        optimizer.check(found_inf)
        return {found_inf.device: found_inf}


class HalfGradSGD(torch.optim.SGD):
    """SGD with momentum of groups of parameters. ``copies`` are to be computed with: leaves, whose gradients count.

    A step that is recorded in a CUDA graph reads its gradients where they lay in the recording: ``recorded`` has to be
    called when that is over. Gradients that ranks have exchanged lie in buffers that stay: ``read_always``.
    """

    def __init__(self, decays: Decays, recipe: Recipe, narrow: Sequence[Any], kind: Any):
        """Take groups of parameters, each with its weight decay; those in ``narrow`` get copies of type ``kind``."""
        super().__init__(groups_of(decays), lr=recipe.learning_rate, momentum=recipe.momentum, fused=True)
        copied = {id(weight): weight.detach().to(kind).requires_grad_() for weight in narrow}
        self.copies = [copied[id(weight)] for weight in narrow]
        self._narrow = list(narrow)
        self._weights = [parameter for parameters, _ in decays for parameter in parameters]
        self.leaves = [copied.get(id(weight), weight) for weight in self._weights]
        for weight in self._weights:
            self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        moved = [
            Moved(weight.data, self.state[weight]["momentum_buffer"], copied.get(id(weight)), decay)
            for parameters, decay in decays
            for weight in parameters
        ]
        self._table = Table(moved, kind)
        self._momentum = recipe.momentum
        self._rate = torch.zeros((), device=self._weights[0].device)
        self._located = self._settled = False
        self._recorded: Any | None = None

    def renew(self) -> None:
        """Take over weights that somebody else has changed."""
        if self.copies:
            with torch.no_grad():
                torch._foreach_copy_(self.copies, self._narrow)

    def read_always(self, gradients: Sequence[Any]) -> None:
        """Read the gradients of ``leaves`` from these tensors from now on, whatever autograd leaves."""
        self._table.read_always(gradients)
        self._settled = True

    def recorded(self) -> None:
        """Read gradients from where they lay in the recording."""
        if not self._settled:
            assert self._recorded is not None
            self._table.look_at(self._recorded)

    def check(self, found: Any) -> None:
        """Set ``found`` to 1 if a gradient is not finite."""
        self._locate()
        self._table.check(found)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move weights and copies, unless the scaler of the loss has found a gradient that is not finite."""
        assert closure is None
        self._locate()
        rate = self.param_groups[0]["lr"]
        if not isinstance(rate, torch.Tensor):
            rate = self._rate.fill_(rate)
        scale, found = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        self._table.move(rate, self._momentum, scale, found)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Release the gradients, the copies' too."""
        super().zero_grad(set_to_none)
        for copy in self.copies:
            copy.grad = None
        self._located = False

    def _locate(self) -> None:
        if self._located or self._settled:
            return
        self._located = True
        addresses = self._table.addresses([leaf.grad for leaf in self.leaves])
        if addresses.device != self._rate.device and torch.cuda.is_current_stream_capturing():
            self._recorded = addresses
        else:
            self._table.look_at(addresses)
