"""trainmark measures how fast deep-learning frameworks train."""

__version__ = "0.2.0"
