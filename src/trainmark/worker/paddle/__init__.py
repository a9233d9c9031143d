"""Trains in PaddlePaddle, 3.0 or later."""

import faulthandler
import signal
import warnings

from ..core.signals import STOPPING

# Said by every import, and by every batch norm that trains: neither is news to anybody.
warnings.filterwarnings("ignore", message="No ccache found")
warnings.filterwarnings("ignore", message="When training, we now always track global mean and variance")

# Paddle's import puts a handler of its own in the place of the worker's, which ends the loader's processes.
_handlers = {number: signal.getsignal(number) for number in STOPPING}

import paddle  # noqa: E402

paddle.disable_signal_handler()
for _number, _handler in _handlers.items():
    signal.signal(_number, _handler)
if faulthandler.is_enabled():
    # Its handlers are gone too, by which Python says where it is.
    faulthandler.disable()
    faulthandler.enable()

from .failures import stopped_by  # noqa: E402

__all__ = ["stopped_by"]
