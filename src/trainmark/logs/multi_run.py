"""Does one file hold several runs, whose counters go on? By what it says twice: facts, results, and lines of a step."""

from collections.abc import Iterator
from dataclasses import replace

from trainmark.logs.counters import copies_apart
from trainmark.logs.format import Format, LogContext, positive
from trainmark.logs.literals import can_match
from trainmark.logs.model import MOST_OF_A_NOTE, Facts, Meaning, Problem, Records, Scope

SEVERAL_RUNS = "several-runs"
_COPIES_APART = 0.02
"""Ranks that print one figure of all devices print the same, but for what they wait for each other."""
_SAMPLES_APART = 0.1
"""Of single steps, or of averages since each rank's own start, they need not."""
_WORDS = {
    "nodes": "{} nodes",
    "gpus": "{} devices",
    "gpus_per_node": "{} devices a node",
    "batch_per_device": "a batch of {} a device",
    "global_batch": "a batch of {} over all devices",
    "accumulation": "{} micro-batches a step",
    "precision": "{}",
}


def said_twice(known: Format, pattern: int, context: LogContext, later: bytes) -> Iterator[Problem]:
    """Yield a doubt where the text before the first record and what follows say other facts of the run.

    ``pattern`` is which of the format's records the log has; ``later`` is what was seen of another beginning further
    down than the context reaches.
    """
    if not known.records:
        return
    record = known.records[pattern]
    first = record.search(context.head)
    if first is None:
        return
    head = context.head[: first.start()]
    before = known.facts(replace(context, head=head, tail=b"", text=head))
    rest = record.sub(b"", context.text[first.start() :])
    for text in (rest, later):
        after = known.facts(replace(context, head=text, tail=b"", text=text)) if text else Facts()
        for name, words in _WORDS.items():
            one, other = getattr(before, name), getattr(after, name)
            if one is not None and other is not None and one != other:
                sentence = (
                    f"the log says {words.format(one)}, and after its first records {words.format(other)}: "
                    "it holds runs of two kinds, and the number is built on the first; split the file"
                )
                yield Problem(SEVERAL_RUNS, sentence)
                return


def two_results(known: Format, records: Records, tail: bytes) -> Iterator[Problem]:
    """Yield a doubt where a program that prints its result once prints two that are not alike.

    Of programs with records the result is not what the number is made of, but for runs of our own.
    """
    summary = known.figures.get("summary")
    if (records.count and known.run_words is None) or summary is None or not can_match(summary, tail):
        return
    values = [value for word in summary.findall(tail) if (value := positive(word)) is not None]
    if values and max(values) > min(values) * (1 + MOST_OF_A_NOTE):
        sentence = (
            f"the program's own result stands there {len(values)} times, from {min(values):.6g} to {max(values):.6g}: "
            "the file holds several runs, and the last one is given; split it"
        )
        yield Problem(SEVERAL_RUNS, sentence)


def unlike_copies(known: Format, records: Records, copies: int) -> Iterator[Problem]:
    """Yield a doubt where the lines that print one step are taken for ranks, and say other figures of the whole."""
    if copies < 2 or known.scope is not Scope.GLOBAL:
        return
    apart = copies_apart(records, copies)
    limit = _COPIES_APART if known.meaning is Meaning.INTERVAL else _SAMPLES_APART
    if apart > limit:
        sentence = (
            f"{copies} lines print each step and are {apart:.0%} apart, though each is to be of all devices: "
            "they are of several runs, or each of one worker; the first of each is read"
        )
        yield Problem(SEVERAL_RUNS, sentence)
