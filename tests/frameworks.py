"""Where the tests find the frameworks' environments."""

import os
from pathlib import Path

import pytest


def framework_python(framework: str) -> str:
    """Return the Python of a framework's environment, or nothing where it is not there.

    TRAINMARK_TEST_ENVS names the folder of the environments (``$TRAINMARK_HOME/envs``).
    """
    python = Path(os.environ.get("TRAINMARK_TEST_ENVS", "/nonexistent")) / framework / "bin" / "python"
    return str(python) if python.exists() else ""


def needs_framework(framework: str) -> pytest.MarkDecorator:
    """Return the mark of tests that start processes in a framework's environment."""
    return pytest.mark.skipif(
        not framework_python(framework),
        reason=f"TRAINMARK_TEST_ENVS has no environment '{framework}' (trainmark env create {framework})",
    )
