"""Golden files of the report, rewritten when TRAINMARK_UPDATE_GOLDEN is set, and its pages, each rendered once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rendering import Rendering

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def assert_golden() -> Callable[[str, str], None]:
    """Return a check of a text against the golden file of a name."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        held = path.read_text(encoding="utf-8")
        assert text == held, (
            f"{name} differs; if that is meant, run with TRAINMARK_UPDATE_GOLDEN=1 and read the diff"
        )

    return check


@pytest.fixture(scope="session")
def rendering(tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """Return the reports of the samples."""
    return Rendering(tmp_path_factory.mktemp("reports"))
