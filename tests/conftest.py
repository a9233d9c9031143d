"""Fixtures of all rooms; what they need is imported when a test asks for it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fakes import Bench


@pytest.fixture
def bench(tmp_path: Path) -> "Bench":
    """Return a folder for a suite of fake programs."""
    from fakes import Bench

    return Bench(tmp_path)
