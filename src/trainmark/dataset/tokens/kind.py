"""Packed tokens as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.kind import FlatFolderKind
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.tokens.make import make_tokens
from trainmark.dataset.tokens.manifest import describe, spec_from
from trainmark.tasks.causal_lm.axes import GIVEN, Form


class TokenSets(FlatFolderKind):
    """Folders of packed tokens; programs read ``train.bin``."""

    base_form = Form.TOKENS
    external_forms = GIVEN
    noun = "tokens"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Create tokens."""
        make_tokens(location, spec_from(dict(values), key), progress)

    def check_own(self, location: Path, _form: str) -> None:
        """Check names and sizes of the files."""
        describe(location)


KIND = TokenSets()
