"""Callbacks that measure the training loops of other libraries as ``trainmark.measure`` measures one's own.

``HuggingFaceCallback`` is for the Trainer of transformers, ``LightningCallback`` for Lightning, ``KerasCallback`` for
Keras 3. Each is imported on first use, with its library and the standard library only.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.integrations.hugging_face import HuggingFaceCallback
    from trainmark.integrations.keras3 import KerasCallback
    from trainmark.integrations.lightning2 import LightningCallback

__all__ = ["HuggingFaceCallback", "KerasCallback", "LightningCallback"]

__getattr__ = attach(
    __name__,
    {
        ".hugging_face": ("HuggingFaceCallback",),
        ".keras3": ("KerasCallback",),
        ".lightning2": ("LightningCallback",),
    },
)
