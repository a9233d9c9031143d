"""The exact commands of every case, as text for a shell."""

from collections.abc import Sequence

from trainmark.report.blocks import Block, Code, Paragraph, Section, plain
from trainmark.report.context import Context
from trainmark.store import CaseResult, RunResult


def section(context: Context) -> Section | None:
    """Return the section, or None when nothing was started."""
    blocks = [block for case in context.results.cases for block in _blocks(context, case)]
    if not blocks:
        return None
    caption: Block = Paragraph(plain(context.say("commands_caption")))
    return Section("commands", context.say("commands_title"), (caption, *blocks), folded=True)


def _blocks(context: Context, case: CaseResult) -> list[Block]:
    name, say = context.axes.label(case.case), context.say
    started = [run for run in case.runs if run.commands]
    if not started:
        return []
    first = started[0]
    if len(started) > 1 and _differ_in_repeat_alone(started):
        heading = say("commands_of_all", case=name, n=len(started), repeat=first.repeat)
        return [Code(heading, "\n".join(first.commands))]
    return [
        Code(say("commands_of_one", case=name, repeat=run.repeat), "\n".join(run.commands)) for run in started
    ]


def _differ_in_repeat_alone(runs: Sequence[RunResult]) -> bool:
    """Say whether the runs' commands are the same but for their folders, and for words that end in the repeat.

    Such a word is the seed: ``--seed=3`` of the third repeat.
    """
    held = [_words(run) for run in runs]
    if len({len(words) for words in held}) > 1:
        return False
    for column in zip(*held, strict=True):
        stems = {word.removesuffix(str(run.repeat)) for word, run in zip(column, runs, strict=True)}
        counted = all(word.endswith(str(run.repeat)) for word, run in zip(column, runs, strict=True))
        if len(set(column)) > 1 and not (counted and len(stems) == 1):
            return False
    return True


def _words(run: RunResult) -> list[str]:
    """Return the commands' words, without what says where this repeat's files go."""
    return [word for command in run.commands for word in command.replace(run.directory, "\0").split(" ")]
