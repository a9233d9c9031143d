"""The exact commands of every case, as text for a shell."""

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
    if len(started) > 1 and all(_shape(run) == _shape(first) for run in started):
        heading = say("commands_of_all", case=name, n=len(started), repeat=first.repeat)
        return [Code(heading, "\n".join(first.commands))]
    return [
        Code(say("commands_of_one", case=name, repeat=run.repeat), "\n".join(run.commands)) for run in started
    ]


def _shape(run: RunResult) -> tuple[str, ...]:
    """Return the commands without what only says where this repeat's files go."""
    return tuple(command.replace(run.directory, "\0") for command in run.commands)
