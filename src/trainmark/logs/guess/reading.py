"""Reading of an unknown program's log by a format that is proposed for it."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trainmark import logs
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.description import build_format
from trainmark.logs.description.build import parse_description
from trainmark.logs.format import Format, GivenFormats
from trainmark.logs.guess import Guess, find_untimed, guess_format
from trainmark.logs.guess.propose import of_ranks
from trainmark.logs.model import Scope, Witness
from trainmark.logs.records import HEAD_BYTES
from trainmark.logs.transport import DamagedError, longest_rank, strip_colours, unpack

NAME = "guessed"


def read_head(path: Path) -> bytes:
    """Return the first part of the log at ``path`` as patterns see it; empty if it is compressed and damaged there."""
    with path.open("rb") as file:
        return _head_of(file)


def propose(path: Path) -> Guess | None:
    """Return a format proposed from the first part of the log at ``path``; None if its lines allow none."""
    try:
        return _propose(read_head(path))
    except OSError:
        return None


IN_EXPLAIN = "trainmark parse --explain prints the format that is proposed"
"""Where to read the proposal for a log that shows its times itself."""


def read_guessed(
    unknown: ParsedLog,
    stream: BinaryIO,
    given: Facts | None,
    guess: Guess | None = None,
    advice: str = IN_EXPLAIN,
) -> ParsedLog | None:
    """Return the log in ``stream`` by a proposed format, as ``guessed``; None if there is none or it does not fit.

    ``stream`` can seek; ``unknown`` is the same log by the known formats; ``guess`` is the proposal, by default that
    from the first part of the log; ``advice`` ends the sentence of the doubt. If a known format recognises the log by
    its beginning alone, its facts are used.
    """
    guess = guess or _propose(_head_of(stream))
    if guess is None:
        return None
    # A log that is read again, with further facts, was recognised by no program either.
    recognised = None if unknown.format == NAME else unknown.format
    if recognised is not None:
        given = _merge_given(given, unknown.facts)
    known = proposed_format(guess)
    stream.seek(0)
    log = logs.read_stream(stream, GivenFormats((known,)), unknown.log, given)
    is_readable = log.status is Status.OK or (log.status is Status.INVALID and log.records.count)
    if not is_readable or log.records.count < guess.lines // 2:
        return None
    assumed = "; ".join((*guess.assumed, *_of_tagged_ranks(log)))
    what = (
        "no known program prints these lines"
        if recognised is None
        else f"no line has the form of a record of '{recognised}', whose words the log has"
    )
    sentence = f"{what}; assumed from their words: {assumed}. {advice}"
    problems = (Problem(NAME, sentence), *log.problems)
    witnesses = (*log.witnesses, *_of_samples(log, guess))
    status = Status.GUESSED if log.status is Status.OK else log.status
    return replace(log, status=status, format=NAME, problems=problems, witnesses=witnesses)


def _of_tagged_ranks(log: ParsedLog) -> Iterator[str]:
    """Yield what is assumed if lines with the tags of several ranks print rates of all devices."""
    if log.records.rate is not None and log.scope is Scope.GLOBAL and len(ranks := log.tagged_ranks()) > 1:
        yield of_ranks(len(ranks), rated=True)


def explain_unknown(unknown: ParsedLog, stream: BinaryIO) -> ParsedLog:
    """Return the unknown log in ``stream``, with the reason if its lines count steps but have no time."""
    stream.seek(0)
    head = _head_of(stream)
    shown = find_untimed(head[: head.rfind(b"\n") + 1])
    if shown is None or unknown.format is not None:
        return unknown
    sentence = (
        f"no line matches a known log format, and lines such as '{shown}' count steps without a time of a step, a "
        "speed per second or a time stamp: time the run from outside (trainmark run -- COMMAND, or COMMAND | ts "
        "'%Y-%m-%d %H:%M:%.S'), or describe the lines that have one (--format FILE.yaml)"
    )
    problems = (
        replace(one, message=sentence) if one.code == "unknown-format" else one for one in unknown.problems
    )
    return replace(unknown, problems=tuple(problems))


def _merge_given(given: Facts | None, logged: Facts) -> Facts:
    """Return the facts that the reader gives, and those of the log where he gives none."""
    if given is None:
        return logged
    stated: dict[str, Any] = {item.name: getattr(given, item.name) for item in fields(given)}
    return replace(logged, **{name: value for name, value in stated.items() if value is not None})


def _of_samples(log: ParsedLog, guess: Guess) -> Iterator[Witness]:
    """Yield the other reading of a counter and a time that may be of samples, if the counter has whole batches."""
    batch, times, steps = log.global_batch, log.records.step_time_s, log.records.step
    if guess.may_count_samples is None or batch is None or batch < 2 or times is None or steps is None:
        return
    if any((values % batch != 0).any() for values in steps.blocks()):
        return
    counter, time = guess.may_count_samples
    seconds = sum(float(np.nansum(values)) for values in times.blocks()) / len(times)
    how = f"1 / {seconds:.6g} s, if '{counter}' counts samples and '{time}' is the time of one: then add --batch 1"
    yield Witness("time of one sample", 1 / seconds, how)


def proposed_format(guess: Guess) -> Format:
    """Return the format that is proposed for the lines of a log."""
    return build_format(parse_description(guess.document, "the proposed format", NAME))


def _head_of(stream: BinaryIO) -> bytes:
    try:
        with unpack(stream) as unpacked:
            return strip_colours(longest_rank(unpacked.read(HEAD_BYTES)))
    except DamagedError:
        return b""


def propose_for(text: bytes) -> Guess | None:
    """Return a format proposed for the first or else the last lines of ``text``; None if they allow none."""
    head = _propose(strip_colours(longest_rank(text[:HEAD_BYTES])))
    if head is not None or len(text) <= HEAD_BYTES:
        return head
    end = text[-HEAD_BYTES:]
    return _propose(strip_colours(longest_rank(end[end.find(b"\n") + 1 :])))


def _propose(text: bytes) -> Guess | None:
    return guess_format(text[: text.rfind(b"\n") + 1])


def proposal(guess: Guess) -> str:
    """Return the YAML of a proposed format, to be saved, corrected and given by ``--format``."""
    import yaml

    document: Mapping[str, Any] = guess.document
    stream = io.StringIO()
    stream.write("".join(f"# {sentence}\n" for sentence in guess.assumed))
    yaml.safe_dump(dict(document), stream, sort_keys=False, allow_unicode=True, width=1000)
    return stream.getvalue()
