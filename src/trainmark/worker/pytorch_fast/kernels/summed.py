"""A convolution that also sums up its output and the squares of it, for the batch norm that follows.

cuDNN has such kernels (``genstats`` in the epilogue) for FP16, available through NVIDIA's package
``nvidia-cudnn-frontend``. The backward pass is torch's own.
"""

from functools import cache
from typing import Any, NamedTuple

import cudnn
import torch
from torch.autograd import Function

from ...core.outcomes import OUT_OF_MEMORY, UNSUPPORTED, RunError
from .positions import quarter_gradients, whole_of


class Geometry(NamedTuple):
    """The key of a plan; sizes are (outer, channels, height, width)."""

    device: Any
    images: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, int]
    padding: tuple[int, int]


# The largest tensor that cuDNN indexes with 32 bits; larger ones are processed in parts of the batch.
MOST_ELEMENTS = (1 << 31) - 1

REFUSALS = (RuntimeError, getattr(cudnn, "cudnnGraphNotSupportedError", RuntimeError))


@cache
def _plan(geometry: Geometry) -> "_Plan":
    """Return the plan; raise ``RunError`` (unsupported) if cuDNN has none for this GPU and shape."""
    try:
        return _Plan(geometry)
    except REFUSALS as error:
        if OUT_OF_MEMORY.search(str(error)):
            raise
        reason = str(error).strip().splitlines()
        raise RunError(
            UNSUPPORTED,
            f"cuDNN {torch.backends.cudnn.version()} (nvidia-cudnn-frontend {cudnn.__version__}) has no FP16"
            f" convolution with sums in its epilogue on {torch.cuda.get_device_name(geometry.device)}"
            f" for images {geometry.images} and weight {geometry.weight}, stride {geometry.stride}:"
            f" {reason[0] if reason else type(error).__name__}; use the compiler fused",
        ) from error


class _Plan:
    """One cuDNN convolution with sums in its epilogue."""

    def __init__(self, geometry: Geometry) -> None:
        self._handle = _handle(geometry.device)
        kind, sums = cudnn.data_type.HALF, cudnn.data_type.FLOAT
        graph = cudnn.pygraph(
            io_data_type=kind, intermediate_data_type=sums, compute_data_type=sums, handle=self._handle
        )
        self._x, self._weight = (
            graph.tensor(name=name, dim=list(size), stride=_channels_last(size), data_type=kind)
            for name, size in (("x", geometry.images), ("weight", geometry.weight))
        )
        self._y = graph.conv_fprop(
            image=self._x,
            weight=self._weight,
            padding=list(geometry.padding),
            stride=list(geometry.stride),
            dilation=[1, 1],
        )
        self._y.set_output(True).set_data_type(kind)
        self._sums = graph.genstats(self._y)
        for tensor in self._sums:
            tensor.set_output(True).set_data_type(sums)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        # The first plan of the heuristics; on an H200 the best of eight was 0.5 % faster.
        graph.build_plans()
        self._graph, self._bytes = graph, max(graph.get_workspace_size(), 1)

    def __call__(self, x: Any, weight: Any, y: Any, sums: Any) -> None:
        cudnn.set_stream(handle=self._handle, stream=torch.cuda.current_stream(x.device).cuda_stream)
        workspace = torch.empty(self._bytes, dtype=torch.uint8, device=x.device)
        total, square = self._sums
        tensors = {self._x: x, self._weight: weight, self._y: y, total: sums[0], square: sums[1]}
        self._graph.execute(tensors, workspace, handle=self._handle)


@cache
def _handle(_device: Any) -> Any:
    return cudnn.create_handle()


def _channels_last(size: tuple[int, ...]) -> "list[int]":
    _, channels, height, width = size
    return [channels * height * width, 1, channels * width, channels]


class Summed(Function):
    """Maps x (batch, inputs, h, w) and a weight to the convolution's output and its sums (2, outputs) in FP32."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, stride: tuple[int, int], padding: tuple[int, int], quarter: bool
    ) -> Any:
        """Compute output and sums of channels-last FP16 tensors; with ``quarter``, x has only the read positions."""
        ctx.save_for_backward(x, weight)
        ctx.quarter = quarter
        x = whole_of(x) if quarter else x
        assert x.dtype == weight.dtype == torch.float16, (x.dtype, weight.dtype)
        assert x.is_contiguous(memory_format=torch.channels_last), x.stride()
        assert weight.is_contiguous(memory_format=torch.channels_last), weight.stride()
        geometry = Geometry(x.device, tuple(x.shape), tuple(weight.shape), stride, padding)
        sides = zip(x.shape[2:], weight.shape[2:], stride, padding)
        edges = [(side + 2 * pad - kernel) // step + 1 for side, kernel, step, pad in sides]
        y = torch.empty((x.shape[0], *edges, weight.shape[0]), dtype=x.dtype, device=x.device).permute(
            0, 3, 1, 2
        )
        most = MOST_ELEMENTS // max(x[0].numel(), y[0].numel())
        parts = [(part_x, part_y) for part_x, part_y in zip(x.split(most), y.split(most))]
        sums = torch.empty((len(parts), 2, weight.shape[0]), dtype=torch.float32, device=x.device)
        for (part_x, part_y), part_sums in zip(parts, sums):
            _plan(geometry._replace(images=tuple(part_x.shape)))(part_x, weight, part_y, part_sums)
        sums = sums[0] if len(parts) == 1 else sums.sum(0)
        ctx.geometry = geometry
        ctx.mark_non_differentiable(sums)
        # Otherwise backward would get zeros for the sums, which costs a kernel for each convolution.
        ctx.set_materialize_grads(False)
        return y, sums

    @staticmethod
    def backward(ctx: Any, dy: Any, _sums: Any) -> Any:
        """Return the gradients of x and weight."""
        x, weight = ctx.saved_tensors
        if ctx.quarter:
            return (*quarter_gradients(x, weight, dy), None, None, None)
        needed = [*ctx.needs_input_grad[:2], False]
        dx, dw, _ = torch.ops.aten.convolution_backward(
            dy, x, weight, None, ctx.geometry.stride, ctx.geometry.padding, [1, 1], False, [0, 0], 1, needed
        )
        return dx, dw, None, None, None
