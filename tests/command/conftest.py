"""Campaigns of programs that are started for real, on a machine that is read once."""

from collections.abc import Iterator

import pytest

from fakes import machine_read_once


@pytest.fixture(autouse=True)
def _machine_read_once() -> Iterator[None]:
    with machine_read_once():
        yield
