"""SGD with momentum over all weights in two launches: are all gradients finite; if they are, move every weight.

Weights whose products are computed in 16 bits have a copy in that type, and their gradients are that copy's: the copy
is written together with the weight, so that neither is ever cast by itself. Where the gradients of all weights have
travelled between ranks in 16 bits they are read as they came. Tensors lie where they lie; a table on the device says
where.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

BLOCK = 4096  # elements of a program
WIDTH = 16  # what the number of elements of a wide weight is a multiple of, so that it is read in wide words


@triton.jit
def _elements(table, tensor, index, KIND: tl.constexpr):
    """Return where the elements of a tensor lie; a table has addresses in units of 16 bytes."""
    start = (tl.load(table + tensor) * 16).to(tl.pointer_type(KIND))
    # Otherwise the compiler takes a number that has become an address for one that is not aligned.
    return tl.multiple_of(start + index, 16)


@triton.jit
def _chunk(chunks, counts, WIDE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Return the elements of this program, and which of them are there."""
    tensor = tl.load(chunks + 2 * tl.program_id(0))
    count = tl.load(counts + tensor)
    if WIDE:
        # Which it is already: the compiler sees that no word of the mask is cut.
        count = count // WIDTH * WIDTH
    index = tl.load(chunks + 2 * tl.program_id(0) + 1) * BLOCK + tl.arange(0, BLOCK)
    return tensor, index, index < count


@triton.jit
def _gradient(gradients, chunks, counts, KIND: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip  # noqa: E501
    tensor, index, there = _chunk(chunks, counts, WIDE, BLOCK, WIDTH)
    return tl.load(_elements(gradients, tensor, index, KIND), mask=there, other=0.0).to(tl.float32)


@triton.jit
def finite_kernel(
    gradients, wide, chunks, counts, found,
    KIND: tl.constexpr, REST: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Set ``found`` to 1 if a gradient is infinite or no number; those of weights that are not wide are ``REST``."""
    tensor = tl.load(chunks + 2 * tl.program_id(0))
    if tl.load(wide + tensor) != 0:
        value = _gradient(gradients, chunks, counts, KIND, True, BLOCK, WIDTH)
    else:
        value = _gradient(gradients, chunks, counts, REST, False, BLOCK, WIDTH)
    lost = tl.max((value - value != 0).to(tl.int32), 0)
    if lost > 0:
        tl.store(found, 1.0)


@triton.jit
def _move(
    weights, momenta, copies, gradients, decays, chunks, counts, rate, unscaled, momentum,
    COPY: tl.constexpr, KIND: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    tensor, index, there = _chunk(chunks, counts, WIDE, BLOCK, WIDTH)
    gradient = tl.load(_elements(gradients, tensor, index, KIND), mask=there, other=0.0).to(tl.float32)
    weight_at = _elements(weights, tensor, index, tl.float32)
    momentum_at = _elements(momenta, tensor, index, tl.float32)
    weight = tl.load(weight_at, mask=there, other=0.0)
    kept = tl.load(momentum_at, mask=there, other=0.0)
    kept = momentum * kept + (gradient * unscaled + tl.load(decays + tensor) * weight)
    weight -= rate * kept
    tl.store(weight_at, weight, mask=there)
    tl.store(momentum_at, kept, mask=there)
    if COPY:
        tl.store(_elements(copies, tensor, index, KIND), weight.to(KIND), mask=there)


@triton.jit
def move_kernel(
    weights, momenta, copies, wide, gradients, decays, chunks, counts, rate, scale, found, momentum,
    COPIED: tl.constexpr, KIND: tl.constexpr, REST: tl.constexpr, SCALED: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """m = momentum * m + g / scale + decay * w; w -= rate * m; nothing at all where ``found`` is not 0."""
    skipped = False
    unscaled = 1.0
    if SCALED:
        skipped = tl.load(found) != 0
        unscaled = 1.0 / tl.load(scale)
    if not skipped:
        speed = tl.load(rate)
        if tl.load(wide + tl.load(chunks + 2 * tl.program_id(0))) != 0:
            _move(
                weights, momenta, copies, gradients, decays, chunks, counts, speed, unscaled, momentum,
                COPIED, KIND, True, BLOCK, WIDTH,
            )  # fmt: skip
        else:
            _move(
                weights, momenta, copies, gradients, decays, chunks, counts, speed, unscaled, momentum,
                False, REST, False, BLOCK, WIDTH,
            )  # fmt: skip


class Moved(NamedTuple):
    """A weight and its momentum in FP32, its copy in 16 bits if it has one, and its decay."""

    weight: Any
    momentum: Any
    copy: Any
    decay: float


def has_copy(weight: Any) -> bool:
    """Return whether a weight can have a copy in 16 bits: its elements are read in wide words."""
    return weight.numel() % WIDTH == 0


def _unit(tensor: Any) -> int:
    """Return the address in units of 16 bytes."""
    units, rest = divmod(tensor.data_ptr(), 16)
    assert rest == 0, tensor.shape
    return int(units)


class Table:
    """Where the tensors of an update lie. Those of one weight lie in the same order of elements.

    Wide weights are those with a copy; where none has one, gradients are in 16 bits, and all are wide that can be.
    """

    def __init__(self, moved: Sequence[Moved], kind: Any) -> None:
        """Take the weights; ``kind`` is the type of all copies, and of gradients that travelled in 16 bits."""
        device = moved[0].weight.device
        assert all(one.copy is None or has_copy(one.weight) for one in moved)
        self._kind = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[kind]
        self._copied = any(one.copy is not None for one in moved)
        wide = [has_copy(one.weight) if not self._copied else one.copy is not None for one in moved]
        self._strides = [one.weight.stride() for one in moved]
        self._types = [kind if is_wide else torch.float32 for is_wide in wide]

        def told(values: list[int], dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device=device)

        self._weights = told([_unit(one.weight) for one in moved], torch.int64)
        self._momenta = told([_unit(one.momentum) for one in moved], torch.int64)
        self._copies = told([0 if one.copy is None else _unit(one.copy) for one in moved], torch.int64)
        self._wide = told([int(is_wide) for is_wide in wide], torch.int32)
        self._gradients = torch.zeros_like(self._weights)
        self._counts = told([one.weight.numel() for one in moved], torch.int32)
        self._decays = torch.tensor([one.decay for one in moved], dtype=torch.float32, device=device)
        chunks = [
            (number, block)
            for number, one in enumerate(moved)
            for block in range(triton.cdiv(one.weight.numel(), BLOCK))
        ]
        self._chunks = torch.tensor(chunks, dtype=torch.int32, device=device)
        self._one = torch.ones((), device=device)

    @property
    def _rest(self) -> Any:
        """The type of the gradients of weights that are not wide."""
        return tl.float32 if torch.float32 in self._types else self._kind

    def read_always(self, gradients: Sequence[Any]) -> None:
        """Read these gradients from now on, which stay where they are: as autograd has them, or all in 16 bits."""
        types = [gradient.dtype for gradient in gradients]
        if torch.float32 not in types:
            self._types = types
        self.look_at(self.addresses(gradients))

    def addresses(self, gradients: Sequence[Any]) -> Any:
        """Return where the gradients lie, in the order of the weights; they must lie as the weights do."""
        for gradient, stride, dtype in zip(gradients, self._strides, self._types):
            assert gradient.dtype == dtype, (gradient.dtype, dtype)
            alike = [
                own == theirs
                for own, theirs, size in zip(gradient.stride(), stride, gradient.shape)
                if size > 1
            ]
            assert all(alike), (gradient.shape, gradient.stride(), stride)
        return torch.tensor([_unit(gradient) for gradient in gradients], dtype=torch.int64)

    def look_at(self, addresses: Any) -> None:
        """Read the gradients there from now on. It waits for a copy from the host, which no graph can hold."""
        self._gradients.copy_(addresses)

    def check(self, found: Any) -> None:
        """Set ``found`` (FP32) to 1 if a gradient is not finite."""
        finite_kernel[(self._chunks.shape[0],)](
            self._gradients, self._wide, self._chunks, self._counts, found,
            KIND=self._kind, REST=self._rest, BLOCK=BLOCK, WIDTH=WIDTH, num_warps=8,
        )  # fmt: skip

    def move(self, rate: Any, momentum: float, scale: Any, found: Any) -> None:
        """Move all weights, or none if ``found`` is set; ``scale`` is the loss', None where it is not scaled."""
        move_kernel[(self._chunks.shape[0],)](
            self._weights, self._momenta, self._copies, self._wide, self._gradients, self._decays, self._chunks,
            self._counts, rate, self._one if scale is None else scale, self._one if found is None else found, momentum,
            COPIED=self._copied, KIND=self._kind, REST=self._rest, SCALED=scale is not None, BLOCK=BLOCK, WIDTH=WIDTH,
            num_warps=8,
        )  # fmt: skip
