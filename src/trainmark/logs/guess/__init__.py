"""An answer for the log of an unknown program: the lines that repeat, the fields by their words, and a proposed format.

A guess is never ``ok``: it says what it assumes, which flags would settle it, and the description that it proposes.
"""

from trainmark.logs.guess.propose import Guess, guess_format

__all__ = ["Guess", "guess_format"]
