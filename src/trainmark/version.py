"""The version of trainmark; it has no other source in the package."""

__version__ = "0.3.0"
