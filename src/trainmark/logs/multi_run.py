"""Detection of lines that a log's records lack or mix: of other runs, of other programs, and misread ones."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from trainmark.logs.fields import STAMP
from trainmark.logs.format import Format, LogContext, parse_positive
from trainmark.logs.gathering import LogCollector
from trainmark.logs.literals import VARYING, can_match, required_all
from trainmark.logs.model import MOST_OF_A_NOTE, Problem, Records
from trainmark.logs.suffixes import SUFFIX

SEVERAL_RUNS = "several-runs"
_WORDS = {
    "nodes": "{} nodes",
    "gpus": "{} devices",
    "gpus_per_node": "{} devices a node",
    "batch_per_device": "a batch of {} a device",
    "global_batch": "a batch of {} over all devices",
    "accumulation": "{} micro-batches a step",
    "precision": "{}",
}
_FEWEST_OTHERS = 2
_FEW = 4
_SMALL_BYTES = 1 << 14
"""A text of this size is searched whole first, as it was when its format was looked for."""
_CHECKED_BYTES = 1 << 15
"""Bytes at either end of the log that are checked."""
_FIGURES = ("rate", "average_rate", "step_time_s", "step_time_ms", "average_time_s", "average_time_ms")
_MORE_DIGITS = re.compile(rb"(?:[ '_]|\xc2\xa0|\xe2\x80\x89|\xe2\x80\xaf)\d{3}(?!\d)")
"""After one to three digits: the number continues in groups of three."""
_OTHER_UNIT = re.compile(rb",\d|[kKMG](?![A-Za-z])")
"""After any number: it continues after a comma, or counts thousands."""
_VALUES = re.compile(rb"[-+\d.eE]*(?:,[-+\d.eE]*){2,}")
"""A line of a table: numbers between commas, of which none is a decimal comma."""
_LETTER_AFTER_STAMP = re.compile(rb"^(?:" + STAMP + rb")?.*?[A-Za-z]")
"""What a line needs to resemble a record: after a date there are rulers and empty lines too."""
_KINDS = 8
"""Most kinds of record lines: with more, other lines that begin like them prove nothing."""
_GROUP = 3
"""Digits between thousands separators."""
_MANY = 0.02
_FEWEST = 3


def conflicting_facts(known: Format, pattern: int, context: LogContext, later: bytes) -> Iterator[Problem]:
    """Yield a doubt if the text before the first record and the text after it report different facts of the run.

    ``pattern`` is the index of the format's record pattern; ``later`` is the text of another start of a log, further
    down than the context reaches.
    """
    if not known.records:
        return
    record = known.records[pattern]
    first = record.search(context.head)
    if first is None:
        return
    rest = record.sub(b"", context.text[first.start() :])
    texts = [text for text in (rest, later) if text]
    found = [known.facts(replace(context, head=text, tail=b"", text=text)) for text in texts]
    found = [after for after in found if any(getattr(after, name) is not None for name in _WORDS)]
    if not found:
        return
    head = context.head[: first.start()]
    before = known.facts(replace(context, head=head, tail=b"", text=head))
    for after in found:
        for name, words in _WORDS.items():
            one, other = getattr(before, name), getattr(after, name)
            if one is not None and other is not None and one != other:
                sentence = (
                    f"the log reports {words.format(one)}, and after its first records {words.format(other)}: "
                    "it contains two different runs, and the number uses the settings of the first; split the file"
                )
                yield Problem(SEVERAL_RUNS, sentence)
                return


def conflicting_results(known: Format, records: Records, tail: bytes) -> Iterator[Problem]:
    """Yield a doubt if a program that prints its result once per run printed two different results.

    For programs with records the number does not come from the result, except for trainmark runs.
    """
    summary = known.figures.get("summary")
    if (records.count and known.own_run is None) or summary is None or not can_match(summary, tail):
        return
    values = [value for word in summary.findall(tail) if (value := parse_positive(word)) is not None]
    if values and max(values) > min(values) * (1 + MOST_OF_A_NOTE):
        sentence = (
            f"the log contains {len(values)} results of the program, from {min(values):.6g} to {max(values):.6g}: "
            "the file contains several runs, and the last result is used; split it"
        )
        yield Problem(SEVERAL_RUNS, sentence)


def other_format_problems(collected: LogCollector) -> list[Problem]:
    """Return a problem if either end of the log has records of another program."""
    known = collected.format
    assert known is not None
    if known.accompanies:
        return _around_harness(known, collected)
    ends = {"beginning": bytes(collected.head), "end": collected.tail}
    if ends["beginning"] == ends["end"]:
        del ends["end"]  # a short log, which is both
    for place, whole in ends.items():
        if len(whole) <= _SMALL_BYTES:
            candidates = [other for other in _others(collected, whole) if _may_be_in(other, whole)]
            if not candidates:
                continue
            text = _few_of_each(whole)
        else:
            text = _few_of_each(whole)
            candidates = _others(collected, text)
        others = [other for other in candidates if _may_be_in(other, text)]
        rest = _without(known, text) if others else b""
        for other in others:
            if _trains_in(other, rest) or (not _share_trainer(other, known) and _is_in(other, rest)):
                return [_other_records(place, other)]
    return []


def _share_trainer(other: Format, known: Format) -> bool:
    """Return whether the results of ``other`` may be of the same run: both programs' trainer prints them."""
    return (other.built_on or other.name) == (known.built_on or known.name)


def _around_harness(harness: Format, collected: LogCollector) -> list[Problem]:
    """Return a problem if another program trains before the first line of ``harness``, or after its last one.

    A program that runs in the harness prints its records between them, and perhaps its results after them.
    """
    head, tail = bytes(collected.head), collected.tail
    first, last = harness.mark.search(head), list(harness.mark.finditer(tail))[-1:]
    ends = {
        "beginning": head[: first.start()] if first else head,
        "end": tail[last[0].end() :] if last else tail,
    }
    for place, whole in ends.items():
        text = _few_of_each(whole)
        for other in collected.formats.candidates(text) if text else ():
            if other.accompanies or not _may_be_in(other, text):
                continue
            # Results after the harness's last line are of a program that ran in it.
            if _trains_in(other, text) or (place == "beginning" and _is_in(other, text)):
                return [_other_records(place, other)]
    return []


def _other_records(place: str, other: Format) -> Problem:
    sentence = f"the {place} of the file has records of another format, {other.name}: split it"
    return Problem("several-formats", sentence)


def _others(collected: LogCollector, text: bytes) -> list[Format]:
    """Return the formats of other programs that ``text`` may have."""
    candidates = collected.formats.candidates(text)
    return [other for other in candidates if other is not collected.format and not other.accompanies]


def _few_of_each(text: bytes) -> bytes:
    """Return the lines of ``text``, but of lines that differ only in their numbers only the first few."""
    counts: Counter[bytes] = Counter()
    chosen = []
    if len(text) > _SMALL_BYTES:
        from trainmark.logs.shapes import few_of_each

        text = few_of_each(text, _FEW)  # first, because checking each line costs more
    for line, kind in zip(text.split(b"\n"), text.translate(None, VARYING).split(b"\n"), strict=True):
        counts[kind] += 1
        if counts[kind] <= _FEW:
            chosen.append(line)
    return b"\n".join(chosen)


def _without(known: Format, text: bytes) -> bytes:
    """Return ``text`` without the records of ``known``."""
    for pattern in known.records:
        text = pattern.sub(b"", text)
    if known.extract is not None:
        text = b"\n".join(line for line in text.split(b"\n") if not known.mark.search(line))
    return text


def _may_be_in(other: Format, text: bytes) -> bool:
    patterns = (*other.records, *other.figures.values(), *([other.mark] if other.extract else []))
    return any(can_match(pattern, text) for pattern in patterns)


def _is_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``, or a result that it prints."""
    results = (figure.search(text) for figure in other.figures.values() if can_match(figure, text))
    return (other.extract is None and any(results)) or _trains_in(other, text)


def _trains_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``."""
    if other.extract is not None:
        return other.mark.search(text) is not None and bool(other.extract(text).columns)
    return any(
        can_match(pattern, text) and len(pattern.findall(text)) >= _FEWEST_OTHERS for pattern in other.records
    )


def find_rejected_lines(known: Format, pattern: int, head: bytes, tail: bytes) -> Iterator[Problem]:
    """Yield doubts about numbers read only in part and record-like lines not read, at either end of a log.

    ``pattern`` is the index of the format's record pattern.
    """
    # The two ends of a short log are one text.
    ends = tuple(dict.fromkeys((head[:_CHECKED_BYTES], tail[-_CHECKED_BYTES:])))
    expressions = [*known.records[pattern : pattern + 1]]
    if summary := known.figures.get("summary"):
        expressions.append(summary)
    for expression in expressions:
        found = next((cut for text in ends for cut in _cut_numbers(expression, text)), None)
        if found is not None:
            sentence = f"some numbers are read only in part ({found}): write them with a decimal point only"
            yield Problem("numbers-cut", sentence)
    for expression in known.records[pattern : pattern + 1]:
        counts = [_count_skipped(expression, text) for text in ends]
        skipped, read = max(counts, key=lambda count: count[0] / max(sum(count), 1))
        if skipped >= _FEWEST and skipped > _MANY * (skipped + read):
            sentence = (
                f"{skipped} of {skipped + read} lines at one end of the log begin like records but cannot be read: "
                "they were truncated, wrapped or written in another locale, and do not count in the number"
            )
            yield Problem("records-passed-over", sentence)


def _cut_numbers(expression: re.Pattern[bytes], text: bytes) -> Iterator[str]:
    """Yield the numbers in ``text`` of which ``expression`` reads only the first part."""
    numbers = expression.groupindex
    # A number whose unit is read too is whole.
    names = [name for name in _FIGURES if name in numbers and name + SUFFIX not in numbers]
    groups = [numbers[name] for name in names] if numbers else [1]
    for match in expression.finditer(text):
        for group in groups:
            word, end = match[group], match.end(group)
            if not word:
                continue
            short = word.isdigit() and len(word) <= _GROUP
            more = (short and _MORE_DIGITS.match(text, end)) or _OTHER_UNIT.match(text, end)
            if more and not _VALUES.fullmatch(_line_at(text, end)):
                yield text[match.start(group) : more.end()].decode("utf-8", "replace")


def _line_at(text: bytes, place: int) -> bytes:
    end = text.find(b"\n", place)
    return text[text.rfind(b"\n", 0, place) + 1 : len(text) if end < 0 else end].rstrip(b"\r")


def _count_skipped(expression: re.Pattern[bytes], text: bytes) -> tuple[int, int]:
    """Return how many lines of ``text`` resemble records but do not match ``expression``, and how many match.

    A line resembles a record if it ends early, or has commas in place of points.
    """
    words = required_all(expression)
    if not words:
        return 0, 0
    word = max(words, key=len)
    lines = [line for line in text.split(b"\n")[1:-1] if word in line]  # the first and last may be incomplete
    ours = {line for line in lines if expression.search(line + b"\n")}
    whole = {line.translate(None, VARYING) for line in ours}
    others = [line for line in lines if line not in ours]
    others = [line.translate(None, VARYING) for line in others if _LETTER_AFTER_STAMP.match(line)]
    skipped = (
        sum(1 for other in others if any(_is_part(other, one) for one in whole))
        if len(whole) <= _KINDS
        else 0
    )
    return skipped, sum(line in ours for line in lines)


def _is_part(line: bytes, whole: bytes) -> bool:
    return whole.startswith(line) or (b"," in line and line.replace(b",", b"") == whole.replace(b",", b""))
