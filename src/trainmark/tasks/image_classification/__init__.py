"""Image classification: convolutional networks on batches of labelled pictures."""

from typing import TYPE_CHECKING

from trainmark.tasks.image_classification.axes import Form, ImageAxes, Layout, MakeImages
from trainmark.tasks.image_classification.spelling import model_word
from trainmark.tasks.task import AxisLabel, Model, Task

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = ["TASK", "ImageAxes", "Layout"]


def _equal_work() -> "EqualWork":
    from trainmark.tasks.image_classification.equal_work import ImageEqualWork

    return ImageEqualWork()


TASK = Task(
    name="image-classification",
    en="image classification",
    zh="图像分类",
    axes=ImageAxes,
    counters=("images",),
    models={
        "resnet50_v1.5": Model(short="r50", published="ResNet50V1.5"),
        "mobilenet_v1": Model(short="mbv1", published="MobileNetV1"),
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
