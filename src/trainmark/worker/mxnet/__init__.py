"""Trains in MXNet 1.9, with Gluon."""

import mxnet as mx

from .collectives import COLLECTIVES
from .failures import stopped_by

__all__ = ["COLLECTIVES", "stopped_by"]

# The engine starts its threads for the first operator, and a thread that gets no memory for its stack ends the
# process without a word: they have to be there before ``--memory-limit`` is in force.
mx.nd.zeros(1).wait_to_read()
