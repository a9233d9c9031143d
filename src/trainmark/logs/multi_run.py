"""Detection of several runs in one file with continuing counters: by facts, results or step lines that differ."""

from collections.abc import Iterator
from dataclasses import replace

from trainmark.logs.counters import copy_deviation
from trainmark.logs.format import Format, LogContext, parse_positive
from trainmark.logs.literals import can_match
from trainmark.logs.model import MOST_OF_A_NOTE, Meaning, Problem, Records, Scope

SEVERAL_RUNS = "several-runs"
_COPY_DEVIATION = 0.02
"""Ranks that print one figure of all devices print nearly the same value."""
_SAMPLE_DEVIATION = 0.1
"""Values of single steps, or averages since each rank's own start, may differ more."""
_WORDS = {
    "nodes": "{} nodes",
    "gpus": "{} devices",
    "gpus_per_node": "{} devices a node",
    "batch_per_device": "a batch of {} a device",
    "global_batch": "a batch of {} over all devices",
    "accumulation": "{} micro-batches a step",
    "precision": "{}",
}


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


def conflicting_copies(known: Format, records: Records, copies: int) -> Iterator[Problem]:
    """Yield a doubt if several lines per step, taken for ranks, report different figures of all devices."""
    if copies < 2 or known.scope is not Scope.GLOBAL:
        return
    deviation = copy_deviation(records, copies)
    limit = _COPY_DEVIATION if known.meaning is Meaning.INTERVAL else _SAMPLE_DEVIATION
    if deviation > limit:
        sentence = (
            f"each step is printed by {copies} lines whose rates differ by {deviation:.0%}, although each should be "
            "that of all devices: they come from several runs, or each from one worker; the first line of each step "
            "is used"
        )
        yield Problem(SEVERAL_RUNS, sentence)
