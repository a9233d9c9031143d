"""A framework that is nothing but numpy: the smallest backend, to show what one consists of."""

from .backend import stopped_by

__all__ = ["stopped_by"]
