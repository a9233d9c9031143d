"""Outcomes, by their place before the words' room."""

from trainmark.words.outcome import Outcome

__all__ = ["Outcome"]
