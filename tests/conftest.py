"""Fixtures of all rooms; what they need is imported when a test asks for it."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from fakes import Bench


# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("trainmark", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trainmark")


def pytest_configure() -> None:
    """Refuse to skip the tests of frameworks that must be there, and let Ctrl-C be tested in the background too.

    A shell that starts a command in the background has it ignore SIGINT, and its children inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from frameworks import what_is_required_and_missing

    if missing := what_is_required_and_missing():
        raise pytest.UsageError(missing)


@pytest.fixture
def bench(tmp_path: Path) -> "Bench":
    """Return a folder for a suite of fake programs."""
    from fakes import Bench

    return Bench(tmp_path)
