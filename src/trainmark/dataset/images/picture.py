"""Procedural pictures with the statistics, and therefore the JPEG decoding cost, of photographs.

The model is *dead leaves* (Lee, Mumford, Huang: "Occlusion models for natural images", 2001): opaque shapes of very
different sizes that occlude each other produce the edges and the scale invariance of natural images. Each shape has a
colour and a texture cut from fields with a falling (near 1/f) spectrum; smooth lighting and sensor noise are added. The
class of a picture sets its hue, so that models have something to learn.

All computation uses integers from the raw stream of PCG64, which numpy guarantees for all versions (NEP 19), and no
logarithm, Fourier transform or matrix product, because their last bits differ between processors.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.images.spec import ImageFolderSpec, Picture, Split, picture_size

if TYPE_CHECKING:
    from PIL import ImageDraw

GENERATOR_VERSION = 1
"""Raised whenever the same spec would give other pixels."""

_TILE = 1024
_PERSISTENCE = (100, 128, 170, 200, 225, 240)
"""The fraction (in 256ths) of a field's amplitude at each finer octave: smooth to rough."""
_SMOOTH = 3
"""Fields before this index are smooth enough to bend outlines and to serve as light; the others are textures."""

Pixels = NDArray[np.uint8]
_Field = NDArray[np.int16]


class _Draws:
    """Small random numbers for the choices in one picture, from one stream of bits."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(key))

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1`` (``limit`` up to 2**32)."""
        return (int(self._bits.random_raw()) >> 32) * limit >> 32

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def bytes(self, *shape: int) -> Pixels:
        """Return an array of uniform bytes of this shape."""
        size = int(np.prod(shape))
        words = np.atleast_1d(self._bits.random_raw((size + 7) // 8))
        return words.astype("<u8").view(np.uint8)[:size].reshape(shape)


def paint(spec: ImageFolderSpec, picture: Picture) -> Pixels:
    """Return the pixels of ``picture`` as uint8 of shape ``(height, width, 3)``, red first."""
    from PIL import Image, ImageFilter

    draws = _Draws(spec.seed, 1 + list(Split).index(picture.split), picture.index)
    width, height = picture_size(spec, draws.below(1000))
    fields = _fields(spec.seed)
    leaves = _leaves(draws, _hue(spec.seed, picture.label), width, height)
    labels = _bend(draws, fields, leaves.labels)

    flat = Image.fromarray(leaves.colour.take(labels, 0)).filter(ImageFilter.BoxBlur(1))
    textures = [_cut(draws, field, width, height) for field in fields[_SMOOTH:]]
    luma = (np.choose(leaves.texture.take(labels), textures) * leaves.contrast.take(labels)) >> 5
    luma += _light(draws, fields, width, height)
    luma += _sensor_noise(draws, width, height)
    pixels: Pixels = np.clip(np.asarray(flat) + luma[:, :, None], 0, 255).astype(np.uint8)
    return pixels


@lru_cache(maxsize=2)
def _fields(seed: int) -> tuple[_Field, ...]:
    return tuple(
        _field(_Draws(seed, 0, number), persistence) for number, persistence in enumerate(_PERSISTENCE)
    )


def _field(draws: _Draws, persistence: int) -> _Field:
    """Return a ``_TILE`` x ``_TILE`` field that tiles seamlessly, with a standard deviation near 32.

    Each octave doubles the resolution, smooths, and adds noise that is weaker by ``persistence / 256``.
    """
    side, amplitude = 4, 256
    field = (draws.bytes(side, side).astype(np.int32) - 128) * amplitude
    while side < _TILE:
        side *= 2
        field = field.repeat(2, 0).repeat(2, 1)
        for axis in (0, 1):
            field = (np.roll(field, 1, axis) + 2 * field + np.roll(field, -1, axis)) >> 2
        amplitude = amplitude * persistence >> 8
        field += (draws.bytes(side, side).astype(np.int32) - 128) * amplitude
    field -= int(field.sum(dtype=np.int64)) // field.size
    deviation = int(np.abs(field).sum(dtype=np.int64)) // field.size * 5 // 4
    return np.clip(field * 32 // deviation, -127, 127).astype(np.int16)


def _cut(draws: _Draws, field: _Field, width: int, height: int) -> _Field:
    """Return a random crop of ``field``, sometimes compressed along one axis, like grass and wood."""
    down = (draws.below(_TILE) + np.arange(height) * draws.between(1, 2)) % _TILE
    across = (draws.below(_TILE) + np.arange(width) * draws.between(1, 2)) % _TILE
    return field[down][:, across]


def _hue(seed: int, label: int) -> tuple[int, int]:
    """Return the class's blue and red difference (Cb, Cr) around 0."""
    draws = _Draws(seed, 3, label)
    return draws.between(-40, 40), draws.between(-40, 40)


@dataclass(frozen=True, slots=True)
class _Leaves:
    """The shapes of one picture: the shape of each pixel, and each shape's colour, texture and contrast."""

    labels: Pixels
    colour: Pixels
    texture: NDArray[np.uint8]
    contrast: NDArray[np.int16]


def _leaves(draws: _Draws, hue: tuple[int, int], width: int, height: int) -> _Leaves:
    count = draws.between(18, 70)
    colour = np.zeros((count, 3), np.uint8)
    texture = np.zeros(count, np.uint8)
    contrast = np.zeros(count, np.int16)
    for leaf in range(count):
        colour[leaf] = _colour(draws, hue)
        texture[leaf] = draws.below(len(_PERSISTENCE) - _SMOOTH)
        contrast[leaf] = 4 + draws.below(12) ** 2 // 2
    # The first leaf is the sky: bright and soft.
    contrast[0] = draws.below(16)

    from PIL import Image, ImageDraw

    canvas = Image.new("L", (width, height), 0)
    pen = ImageDraw.Draw(canvas)
    horizon = height * draws.between(35, 80) // 100
    hills = [(width * x // 4, horizon + draws.between(-height // 12, height // 12)) for x in range(5)]
    pen.polygon([*hills, (width, height), (0, height)], fill=1)
    for leaf in range(2, count):
        # Many small leaves and few large ones.
        radius = max(4, min(width, height) * 550 // (1000 + 15 * draws.below(1000)))
        _draw_leaf(draws, pen, leaf, (draws.below(width), draws.below(height)), radius)
    return _Leaves(np.asarray(canvas), colour, texture, contrast)


def _colour(draws: _Draws, hue: tuple[int, int]) -> tuple[int, int, int]:
    """Return red, green and blue: random brightness, and a hue near the class's (JFIF's YCbCr, rounded)."""
    y = draws.between(30, 225)
    cb, cr = (part * draws.between(0, 256) // 256 + draws.between(-14, 14) for part in hue)
    red, green, blue = y + 359 * cr // 256, y - (88 * cb + 183 * cr) // 256, y + 454 * cb // 256
    return min(max(red, 0), 255), min(max(green, 0), 255), min(max(blue, 0), 255)


def _draw_leaf(
    draws: _Draws, pen: "ImageDraw.ImageDraw", leaf: int, centre: tuple[int, int], radius: int
) -> None:
    x, y = centre
    a, b = (radius * draws.between(50, 150) // 100 for _ in range(2))
    shape = draws.below(3)
    if shape == 0:
        pen.ellipse((x - a, y - b, x + a, y + b), fill=leaf)
    elif shape == 1:
        pen.rectangle((x - a, y - b, x + a, y + b), fill=leaf)
    else:
        corners = [
            (x - a, y + draws.below(b + 1)),
            (x + draws.below(a + 1), y - b),
            (x + a, y - draws.below(b + 1)),
            (x - draws.below(a + 1), y + b),
        ]
        pen.polygon(corners, fill=leaf)


def _bend(draws: _Draws, fields: tuple[_Field, ...], labels: Pixels) -> Pixels:
    """Return ``labels`` with outlines bent by a smooth field, to avoid straight edges."""
    height, width = labels.shape
    field = fields[draws.below(_SMOOTH)]
    down = np.arange(height)[:, None] + (_cut(draws, field, width, height) * draws.between(1, 6) >> 3)
    across = np.arange(width)[None, :] + (_cut(draws, field, width, height) * draws.between(1, 6) >> 3)
    at = np.clip(down, 0, height - 1) * width + np.clip(across, 0, width - 1)
    return np.asarray(labels.ravel()[at])


def _light(draws: _Draws, fields: tuple[_Field, ...], width: int, height: int) -> _Field:
    down = (np.arange(height) - height // 2) * draws.between(-50, 50) // height
    across = (np.arange(width) - width // 2) * draws.between(-50, 50) // width
    light = _cut(draws, fields[0], width, height) + down[:, None] + across[None, :]
    return (light >> 1).astype(np.int16)


def _sensor_noise(draws: _Draws, width: int, height: int) -> _Field:
    """Return brightness noise; its strength varies between pictures, like ISO settings."""
    strength = draws.between(3, 8)
    twice = draws.bytes(2, height, width).astype(np.int16)
    noise: _Field = ((twice[0] + twice[1] - 255) * strength) >> 6
    return noise
