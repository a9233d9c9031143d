"""ResNet-50 with everything between two convolutions as one operation of autograd's: norm, sum, ReLU, pool.

A block's output goes two ways, into the next block's convolution and into its shortcut. It is given out twice, so that
the two gradients come back apart and are summed where they are read, not in a pass of their own.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional

from ...models.pytorch_image_classification import convolution
from ...tasks.image_classification.architectures import ARCHITECTURES, Convolution
from ..compilers import FOLDED, QUARTER
from ..kernels import norm as kernels
from ..kernels import pool
from ..kernels.positions import padded, padded_weight, quarter_gradients, quarter_of, whole_of

# The same values in two tensors of one memory: for a block's convolutions, and for its shortcut.
Twice = tuple[Any, Any]


class FusedResNet50(nn.Module):
    """ResNet-50: the same modules as without fusion, in the same order, on channels-last tensors alone."""

    # Weights of ``narrowed`` in 16 bits that somebody else keeps, while they are to be computed with.
    copies: Sequence[Any] | None = None

    def __init__(
        self, classes: int, summed: bool = False, stages: frozenset[str] = frozenset((FOLDED, QUARTER))
    ) -> None:
        """Draw the weights from torch's generator; ``summed``: see ``SummedConv``."""
        super().__init__()
        architecture = ARCHITECTURES["resnet50_v1.5"]
        self.stem = nn.Sequential(*convolution(architecture.convolutions[0], NormPool, StemConv))
        units: list[nn.Module] = [
            FusedBottleneck(layers, summed) for layers in architecture.blocks().values()
        ]
        self.blocks = nn.Sequential(*units)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = NarrowLinear(architecture.features, classes)
        self.narrowed = [
            module for module in self.modules() if isinstance(module, (NarrowConv, NarrowLinear))
        ]
        for module in self.modules():
            if isinstance(module, (NormCut, NormAdd)):
                module.folded = FOLDED in stages
        if QUARTER in stages:
            for before, block in pairwise(units):
                if len(block.shortcut):
                    before.bn3.quartered = block.shortcut[0].quarter = block.shortcut[0].stride == (2, 2)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        if self.copies is not None:
            self._compute_with(self.copies)
        elif torch.is_autocast_enabled("cuda"):
            weights = [module.weight for module in self.narrowed]
            self._compute_with(_Narrow.apply(torch.get_autocast_dtype("cuda"), *weights))
        y, _ = self.blocks(self.stem(images))
        logits = self.classifier(self.pool(y).flatten(1))
        self._compute_with([None] * len(self.narrowed))
        return logits

    def _compute_with(self, weights: Sequence[Any]) -> None:
        for module, weight in zip(self.narrowed, weights):
            module.narrow = weight


class FusedBottleneck(nn.Module):
    """``Bottleneck``."""

    def __init__(self, layers: dict[str, Convolution], summed: bool) -> None:
        """Take the block's convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        kind = SummedConv if summed else NarrowConv
        self.conv1, self.bn1 = convolution(layers["a"], NormCut, kind)
        self.conv2, self.bn2 = convolution(layers["b"], NormCut, kind)
        self.conv3, self.bn3 = convolution(layers["c"], NormAdd, kind)
        shortcut = convolution(layers["shortcut"], NormLater, kind) if "shortcut" in layers else ()
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, given: Twice) -> Twice:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        x, branch = given
        out = self.bn2(self.conv2(self.bn1(self.conv1(x))))
        return self.bn3(self.conv3(out), self.shortcut(branch))


class NarrowConv(nn.Conv2d):
    """A convolution whose weight in 16 bits the network makes, all of them in one pass; autocast makes one by one."""

    narrow: Any = None

    quarter = False
    """Whether the input is already every second row and column of what the convolution of stride 2 is of."""

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) as ``Conv2d`` does."""
        weight = self.weight if self.narrow is None else self.narrow
        if self.quarter:
            return _Quarter.apply(x, weight)
        return self._conv_forward(x, weight, None)


class NarrowLinear(nn.Linear):
    """The same of a product."""

    narrow: Any = None

    def forward(self, x: Any) -> Any:
        """Map (batch, features) as ``Linear`` does."""
        return functional.linear(x, self.weight if self.narrow is None else self.narrow, self.bias)


class SummedConv(NarrowConv):
    """A convolution in FP16 that sums up what it writes; the sums go along with its output, as ``sums``."""

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) as ``Conv2d`` does."""
        weight = self.weight if self.narrow is None else self.narrow
        if not self.training or weight.dtype != torch.float16:
            return super().forward(x)
        from ..kernels.summed import Summed

        y, y.sums = Summed.apply(x, weight, self.stride, self.padding, self.quarter)
        return y


class StemConv(NarrowConv):
    """A convolution of images: with a fourth channel of zeros, which changes no sum."""

    def forward(self, x: Any) -> Any:
        """Map (batch, 3, h, w) as ``Conv2d`` does."""
        weight = self.weight if self.narrow is None else self.narrow
        return _Stem.apply(x, weight, self.stride, self.padding)


class Later(NamedTuple):
    """A tensor, and the norm that whoever reads it has to apply."""

    x: Any
    norm: nn.BatchNorm2d


class NormCut(nn.BatchNorm2d):
    """ReLU of the norm. Parameters, statistics and their names are torch's, in all of these."""

    folded = False

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to the same shape."""
        if not self.training:
            return super().forward(x).relu_()
        return _Cut.apply(x, self.weight, self.bias, self, _sums(x))


class NormLater(nn.BatchNorm2d):
    """A shortcut's norm: applied in the pass that adds the shortcut."""

    def forward(self, x: Any) -> Any:
        """Return x with the norm that it is still to get; in evaluation mode it has got it."""
        return Later(x, self) if self.training else super().forward(x)


class NormAdd(nn.BatchNorm2d):
    """ReLU of the norm plus the shortcut."""

    folded = False

    quartered = False  # whether the second output has what a shortcut of stride 2 reads, and no more

    def forward(self, x: Any, shortcut: Any) -> Twice:
        """Map two times (batch, channels, h, w) to the same shape, twice."""
        if not self.training:
            y = (super().forward(x) + shortcut).relu_()
            return y, quarter_of(y) if self.quartered else y
        if isinstance(shortcut, Later):
            branch = shortcut.norm
            return _AddNormed.apply(
                x, self.weight, self.bias, shortcut.x, branch.weight, branch.bias,
                self, branch, _sums(x), _sums(shortcut.x),
            )  # fmt: skip
        return _Add.apply(x, self.weight, self.bias, shortcut, self, _sums(x))


class NormPool(nn.BatchNorm2d):
    """The 3x3 maximum of stride 2 of ReLU of the norm."""

    def forward(self, x: Any) -> Twice:
        """Map (batch, channels, h, w) to half the height and width, twice."""
        if not self.training:
            y = functional.max_pool2d(super().forward(x).relu_(), 3, stride=2, padding=1)
            return y, y
        return _Pool.apply(x, self.weight, self.bias, self)


def _sums(x: Any) -> Any | None:
    return getattr(x, "sums", None)


def _rows(x: Any) -> Any:
    """Return the channels-last tensor as (batch * h * w, channels), which must need no copy."""
    return x.permute(0, 2, 3, 1).view(-1, x.shape[1])


def _images(rows: Any, like: Any) -> Any:
    batch, channels, height, width = like.shape
    return rows.view(batch, height, width, channels).permute(0, 3, 1, 2)


def _gradient(dy: Any) -> Any:
    return None if dy is None else _rows(dy.contiguous(memory_format=torch.channels_last))


def _normed(
    x: Any, weight: Any, bias: Any, module: nn.BatchNorm2d, sums: Any | None, folded: bool
) -> tuple[kernels.Normed, kernels.Unfinished | None]:
    """Return the norm; and, where its moments are found in the pass that applies it, from what."""
    running = (module.running_mean, module.running_var, module.num_batches_tracked)
    given, rows = kernels.Unfinished(sums, weight, bias, running, module.eps, module.momentum), _rows(x)
    if folded and sums is not None and kernels.is_small(rows):
        return kernels.to_be_found(rows, given), given
    return kernels.normed(rows, given), None


def _twice(y: Any, like: Any, quartered: bool) -> Twice:
    images = _images(y, like)
    return images, quarter_of(images) if quartered else _images(y, like)


def _both(dy: Any, more: Any, module: Any) -> tuple[Any, Any, tuple[int, int] | None]:
    """Return a block end's two gradients as rows, and the images' extent if the second is of a quarter of them."""
    if module.quartered and dy is not None and more is not None:
        return _gradient(dy), _gradient(more), (dy.shape[2], dy.shape[3])
    assert not module.quartered or more is None, "only its shortcut reads the block's output"
    return (*_present(dy, more), None)


class _Narrow(Function):
    """Weights in another type, and their gradients back in the weights' own."""

    @staticmethod
    def forward(ctx: Any, dtype: Any, *weights: Any) -> Any:
        ctx.own = weights[0].dtype
        return _cast(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *_cast(gradients, ctx.own))


def _cast(tensors: Any, dtype: Any) -> Any:
    cast = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    torch._foreach_copy_(cast, tensors)
    return cast


class _Stem(Function):
    """The images with their fourth channel are made anew in the backward pass, so that they need not be kept."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, stride: Any, padding: Any) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.geometry = (stride, padding)
        return functional.conv2d(padded(x), padded_weight(weight), None, stride, padding)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, weight = ctx.saved_tensors
        inputs = (dy, padded(x).to(dy.dtype), padded_weight(weight).to(dy.dtype))
        _, dw, _ = torch.ops.aten.convolution_backward(
            *inputs, None, *ctx.geometry, [1, 1], False, [0, 0], 1, [False, True, False]
        )
        own = dw[:, : weight.shape[1]].to(weight.dtype).contiguous(memory_format=torch.channels_last)
        return None, own, None, None


class _Quarter(Function):
    """A convolution of 1x1 and stride 2, given the positions that it reads."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight)
        return functional.conv2d(whole_of(x), weight, stride=2)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, weight = ctx.saved_tensors
        return quarter_gradients(x, weight, dy)


class _Cut(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, module: NormCut, sums: Any) -> Any:
        norm, unfinished = _normed(x, weight, bias, module, sums, module.folded)
        y, _ = kernels.applied(norm, None, unfinished)
        ctx.save_for_backward(*norm)
        return _images(y, x)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        back = kernels.back(kernels.Normed(*ctx.saved_tensors), _gradient(dy))
        return (_images(back.dx, dy), *back.vectors, None, None)


class _Add(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, shortcut: Any, module: NormAdd, sums: Any) -> Twice:
        norm, unfinished = _normed(x, weight, bias, module, sums, module.folded)
        y, retained = kernels.applied(norm, _rows(shortcut), unfinished)
        ctx.save_for_backward(*norm, retained)
        ctx.set_materialize_grads(False)
        ctx.module = module
        return _twice(y, x, module.quartered)

    @staticmethod
    def backward(ctx: Any, dy: Any, more: Any) -> Any:
        *norm, retained = ctx.saved_tensors
        like = dy if dy is not None else more
        first, second, quartered = _both(dy, more, ctx.module)
        back = kernels.back(kernels.Normed(*norm), first, second, retained, quartered=quartered)
        return (_images(back.dx, like), *back.vectors, _images(back.d_other, like), None, None)


class _AddNormed(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, bias: Any, branch: Any, weight2: Any, bias2: Any,
        module: Any, module2: Any, sums: Any, sums2: Any,
    ) -> Twice:  # fmt: skip
        folded = module.folded and sums is not None and sums2 is not None
        norm, unfinished = _normed(x, weight, bias, module, sums, folded)
        other, other_unfinished = _normed(branch, weight2, bias2, module2, sums2, folded)
        y, retained = kernels.applied(norm, other, unfinished, other_unfinished)
        ctx.save_for_backward(*norm, *other, retained)
        ctx.set_materialize_grads(False)
        ctx.module = module
        return _twice(y, x, module.quartered)

    @staticmethod
    def backward(ctx: Any, dy: Any, more: Any) -> Any:
        *norms, retained = ctx.saved_tensors
        half = len(norms) // 2
        norm, other = kernels.Normed(*norms[:half]), kernels.Normed(*norms[half:])
        like = dy if dy is not None else more
        first, second, quartered = _both(dy, more, ctx.module)
        back = kernels.back(norm, first, second, retained, other, quartered)
        assert back.other_vectors is not None
        return (
            _images(back.dx, like), *back.vectors, _images(back.d_other, like), *back.other_vectors,
            None, None, None, None,
        )  # fmt: skip


class _Pool(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, module: nn.BatchNorm2d) -> Twice:
        norm, _ = _normed(x, weight, bias, module, None, False)
        ctx.extent = extent = pool.Extent(*x.shape[2:])
        y, taken = pool.pooled(norm, extent)
        ctx.save_for_backward(*norm, taken)
        ctx.set_materialize_grads(False)
        rows = y.view(x.shape[0], *extent.pooled, x.shape[1])
        return rows.permute(0, 3, 1, 2), rows.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, dy: Any, more: Any) -> Any:
        *saved, taken = ctx.saved_tensors
        norm = kernels.Normed(*saved)
        dx, *vectors = pool.back(norm, taken, ctx.extent, *_present(dy, more))
        batch, channels = (dy if dy is not None else more).shape[:2]
        return (dx.view(batch, *ctx.extent, channels).permute(0, 3, 1, 2), *vectors, None)


def _present(dy: Any, more: Any) -> tuple[Any, Any]:
    """Return both gradients as rows, the second one None where an output is read by nobody."""
    return (_gradient(more), None) if dy is None else (_gradient(dy), _gradient(more))
