"""Packed tokens as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.kind import FewFiles
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.tokens.made import describe, spec_from
from trainmark.dataset.tokens.make import make_tokens
from trainmark.tasks.causal_lm.data import GIVEN, Form


class TokenSets(FewFiles):
    """Folders of packed tokens, of which a program reads ``train.bin``."""

    first = Form.TOKENS
    given = GIVEN
    noun = "tokens"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make tokens."""
        make_tokens(location, spec_from(dict(values), key), progress)

    def described(self, location: Path, _form: str) -> None:
        """Look at names and sizes."""
        describe(location)


KIND = TokenSets()
