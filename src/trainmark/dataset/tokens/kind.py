"""Packed tokens as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.given import require_given
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.tokens.made import describe, spec_from
from trainmark.dataset.tokens.make import make_tokens
from trainmark.errors import InputError
from trainmark.tasks.causal_lm.data import GIVEN, Form


class TokenSets:
    """Folders of packed tokens: there is one form of them."""

    first = Form.TOKENS

    def told(self, location: Path, _form: str, _made: bool) -> Path:
        """Return the folder itself; a program reads its ``train.bin``."""
        return location

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make tokens."""
        make_tokens(location, spec_from(dict(values), key), progress)

    def look_at(self, location: Path, form: str) -> None:
        """Look at names and sizes."""
        if form in GIVEN:
            require_given(location)
        else:
            describe(location)

    def is_convertible(self, _form: str) -> bool:
        """Tell that there is nothing to convert to."""
        return False

    def convert(
        self, source: Path, _location: Path, form: str, _jobs: int, _progress: ProgressListener
    ) -> None:
        """Refuse."""
        raise InputError(f"{source}: tokens have no form '{form}'")


KIND = TokenSets()
