"""What the first step of an image network really computed with, and the layout by a shape."""

from dataclasses import dataclass

from ...core import facts


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``compute_dtype``, ``activation_layout`` and ``batch_per_device`` are of the second convolution's output.

    Its input has been through the stem. A layout is ``nchw``, ``nhwc``, ``either`` where the two are the same, or
    ``neither``.
    """

    activation_layout: str | None = None
    weight_layout: str | None = None


def layout_by_axes(shape: tuple[int, ...], channels: int) -> str:
    """Return the layout of an activation or a weight of four axes by where its ``channels`` are."""
    first, last = shape[1] == channels, shape[3] == channels
    if first and last:
        return "either"
    if first:
        return "nchw"
    return "nhwc" if last else "neither"
