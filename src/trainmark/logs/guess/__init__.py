"""An answer for the log of an unknown program: the lines that repeat, the fields by their words, and a proposed format.

A guess is never ``ok``: it states its assumptions, the flags that would replace them, and the proposed description.
"""

from trainmark.logs.guess.model import Guess
from trainmark.logs.guess.propose import find_untimed, guess_format

__all__ = ["Guess", "find_untimed", "guess_format"]
