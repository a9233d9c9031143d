"""Reading text as a log, and the corpus of real logs where it is present."""

import io
from pathlib import Path

import pytest
from conftest_logs import Reader

from corpora import CORPUS
from trainmark.logs import Facts, ParsedLog
from trainmark.programs import read_stream


@pytest.fixture
def read() -> Reader:
    def reader(text: str | bytes, name: str = "-", given: Facts | None = None) -> ParsedLog:
        data = text.encode() if isinstance(text, str) else text
        return read_stream(io.BytesIO(data), name, given)

    return reader


@pytest.fixture
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real logs (../shared/corpus) is not here")
    return CORPUS / "logs"
