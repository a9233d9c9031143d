"""Reading of an unknown program's log by a format that is proposed for it."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmark import logs
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.description import build_format
from trainmark.logs.description.document import parse_description
from trainmark.logs.gathering import HEAD_BYTES
from trainmark.logs.guess import Guess, guess_format
from trainmark.logs.known_formats import GivenFormats
from trainmark.logs.opening import DamagedError, unpack
from trainmark.logs.transport import clean, strip_colours

NAME = "guessed"


def read_head(path: Path) -> bytes:
    """Return the first part of the log at ``path`` as patterns see it; empty if it is compressed and damaged there."""
    try:
        with path.open("rb") as file, unpack(file) as unpacked:
            return strip_colours(clean(unpacked.read(HEAD_BYTES)))
    except DamagedError:
        return b""


def propose(path: Path) -> Guess | None:
    """Return a format proposed from the first part of the log at ``path``; None if its lines allow none."""
    try:
        text = read_head(path)
    except OSError:
        return None
    return guess_format(text[: text.rfind(b"\n") + 1])


def read_guessed(unknown: ParsedLog, path: Path, given: Facts | None) -> ParsedLog | None:
    """Return the log at ``path`` by a proposed format, as ``guessed``; None if there is none or it does not fit."""
    guess = propose(path)
    if guess is None:
        return None
    known = build_format(parse_description(guess.document, "the proposed format", NAME))
    log = logs.read_log(path, GivenFormats((known,)), given)
    if log.status is not Status.OK or log.records.count < guess.lines // 2:
        return None
    assumed = "; ".join(guess.assumed)
    sentence = (
        f"no known program prints these lines; assumed from their words: {assumed}. "
        "trainmark parse --explain prints the format that is proposed"
    )
    problems = (Problem(NAME, sentence), *log.problems)
    return replace(log, log=unknown.log, status=Status.GUESSED, format=NAME, problems=problems)


def proposal(guess: Guess) -> str:
    """Return the YAML of a proposed format, to be saved, corrected and given by ``--format``."""
    import yaml

    document: Mapping[str, Any] = guess.document
    stream = io.StringIO()
    stream.write("".join(f"# {sentence}\n" for sentence in guess.assumed))
    yaml.safe_dump(dict(document), stream, sort_keys=False, allow_unicode=True, width=1000)
    return stream.getvalue()
