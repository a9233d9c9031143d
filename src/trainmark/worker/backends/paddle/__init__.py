"""The backend of PaddlePaddle, 3.0 or later; its failures."""

import faulthandler
import re
import signal
import warnings

from ...core import outcomes
from ...core.signals import STOPPING

__all__ = ["FAILURES"]

# Every import, and every batch norm that trains, prints one of these.
warnings.filterwarnings("ignore", message="No ccache found")
warnings.filterwarnings("ignore", message="When training, we now always track global mean and variance")

# Paddle's import replaces the worker's handlers, which end the loader's processes.
_handlers = {number: signal.getsignal(number) for number in STOPPING}

import paddle  # noqa: E402

paddle.disable_signal_handler()
for _number, _handler in _handlers.items():
    signal.signal(_number, _handler)
if faulthandler.is_enabled():
    # Paddle has replaced its handlers too, which show the stack.
    faulthandler.disable()
    faulthandler.enable()

WANTED_ON_HOST = re.compile(r"Fail to alloc memory of (\d+)")
WANTED_ON_GPU = re.compile(r"Cannot allocate ([\d.]+[KMG]?B) memory on GPU")
GLOO_TIMEOUT = re.compile(r"TIMEOUT self_rank = \w+ pair_rank = -?\w+")
LOADER_ENDED = re.compile("DataLoader process")


def _out_of_memory(_error: BaseException, found: "re.Match[str]") -> outcomes.RunError:
    """Return where there is no memory, and how much was wanted: a bare number of bytes on the host."""
    where, unit = ("host", " bytes") if found.re is WANTED_ON_HOST else ("GPU", "")
    reason = f"the {where} is out of memory: it could not allocate {found.group(1)}{unit}"
    return outcomes.RunError(outcomes.OOM, reason)


_MEMORY = (MemoryError, RuntimeError)
_CONTACT = (RuntimeError, ValueError, OSError)
# Paddle turns its C++ error classes into Python's (ResourceExhausted is a MemoryError), and exceptions of other
# libraries, such as gloo, into RuntimeError, ValueError or OSError.
FAILURES = (
    outcomes.Known(_MEMORY, WANTED_ON_GPU, _out_of_memory),
    outcomes.Known(_MEMORY, WANTED_ON_HOST, _out_of_memory),
    outcomes.Known(_MEMORY, outcomes.OUT_OF_MEMORY, outcomes.out_of_memory),
    outcomes.Known(_CONTACT, GLOO_TIMEOUT, outcomes.lost_peer),
    outcomes.Known(_CONTACT, outcomes.LOST_PEER, outcomes.lost_peer),
    outcomes.Known((SystemError,), LOADER_ENDED, outcomes.loader_ended),
)
