"""Image classification: convolutional networks on batches of labelled pictures."""

import re
from typing import TYPE_CHECKING

from trainmark.tasks.declaration import AxisLabel, Model, Task
from trainmark.tasks.image_classification.axes import Form, ImageAxes, Layout, MakeImages

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = ["TASK", "ImageAxes", "Layout"]


def _equal_work() -> "EqualWork":
    from trainmark.tasks.image_classification.equal_work import ImageEqualWork

    return ImageEqualWork()


_RESNET = re.compile(r"resnet[-_ ]?(\d+)[-_ ]?(?:v(1(?:\.5)?|15|2))?")
_RESNET_VERSION_FIRST = re.compile(r"resnetv(15?|2)[-_](\d+)")
_MOBILENET = re.compile(r"mobilenet[-_ ]?(?:v?(\d)(?:\.0)?)")


def model_word(name: str) -> str | None:
    """Return trainmark's word for a model: ``resnetv15-50`` and ``ResNet50V1.5`` are ``resnet50_v1.5``.

    A version that is missing in the name is left out (``ResNet50`` is ``resnet50``). The result is None for an unknown
    family.
    """
    plain = name.strip().lower()
    if match := _RESNET_VERSION_FIRST.fullmatch(plain):
        return f"resnet{match[2]}_v{_version(match[1])}"
    if match := _RESNET.fullmatch(plain):
        return f"resnet{match[1]}" + (f"_v{_version(match[2])}" if match[2] else "")
    if match := _MOBILENET.fullmatch(plain):
        return f"mobilenet_v{match[1]}"
    return None


def _version(word: str) -> str:
    return "1.5" if word == "15" else word


TASK = Task(
    name="image-classification",
    en="image classification",
    zh="图像分类",
    axes=ImageAxes,
    counters=("images",),
    models={
        "resnet50_v1.5": Model(short="r50", published="ResNet50V1.5"),
        "mobilenet_v1": Model(short="mbv1", published="MobileNetV1"),
        "mobilenet_tiny": Model(short="mbtiny", published="MobileNet-tiny"),
    },
    labels={
        "layout": AxisLabel("layout", "布局"),
        "image_size": AxisLabel("image size", "图像尺寸", value="{} px", short="{}px"),
    },
    repository="clas",
    is_default=True,
    unit_aliases=frozenset({"img", "sample", "example"}),
    recipe_axes=("mixup", "fused_batch_norm"),
    model_word=model_word,
    variant_axes=("layout",),
    data_kind="images",
    make=MakeImages,
    forms=tuple(Form),
    equal_work=_equal_work,
)
