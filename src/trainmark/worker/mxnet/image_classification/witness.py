"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import HybridBlock, nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes
from ..precision import dtype_name
from .network import blocks


class Witness:
    """Watches the network's second convolution, through a forward hook: its input has been through the stem.

    A network that runs operator by operator gives its output in each pass. A hybridized one calls its blocks only
    to be traced, with symbols; the hook keeps the symbol, up to which the traced graph itself can be run.
    """

    def __init__(self, model: HybridBlock, name: str) -> None:
        """Hook into the network before its first pass."""
        self._parameters = {parameter.name: parameter for parameter in model.collect_params().values()}
        self._description = ARCHITECTURES[name].convolutions[1]
        self._second = blocks(model, nn.Conv2D)[1]
        self._output: Any = None
        self.traces = 0
        """How often the network was traced so far."""
        self._hook = self._second.register_forward_hook(self._see)

    def _see(self, _conv: Any, _inputs: Any, output: Any) -> None:
        self._output = output
        self.traces += isinstance(output, mx.sym.Symbol)

    def told(self, images: Any) -> Seen:
        """Return what the pass of ``images`` computed with. MXNet's arrays are contiguous: shapes tell the layout.

        The hook of a hybridized network stays, to count traces, and costs its steps nothing. NVIDIA's libraries
        are told about TF32 beside MXNet, which cannot be asked.
        """
        output = self._output
        if isinstance(output, mx.sym.Symbol):
            output = self._run(output, images)
        else:
            self._hook.detach()
        layer, weight = self._description, self._second.weight.data()
        return Seen(
            compute_dtype=dtype_name(output),
            weight_dtype=dtype_name(weight),
            activation_layout=layout_by_axes(output.shape, layer.outputs),
            weight_layout=layout_by_axes(weight.shape, layer.inputs // layer.groups),
            batch_per_device=output.shape[0],
            unseen=("tf32_matmul", "tf32_convolution"),
        )

    def _run(self, symbol: Any, images: Any) -> Any:
        """Run the traced graph up to a symbol; the running statistics stay as they are."""
        inputs = [
            self._parameters[name].data() if name in self._parameters else images
            for name in symbol.list_inputs()
        ]
        return mx.nd.CachedOp(symbol)(*inputs)
