"""The man page, made from the help of the verbs."""

from collections.abc import Iterable

from trainmark.cli.command_tree import CommandInfo
from trainmark.version import __version__

HEAD = f"""\
.TH TRAINMARK 1 "" "trainmark {__version__}" "User commands"
.SH NAME
trainmark \\- measure how fast deep-learning programs train
.SH SYNOPSIS
.B trainmark
.I VERB
[OPTIONS] ...
.SH DESCRIPTION
Measures how fast deep-learning programs train, so that the number can be reproduced, compared and explained.
.SH EXIT STATUS
0: success.
1: a run or a check failed, or what was checked does not hold.
2: the command line or an input file is invalid.
130: interrupted.
.SH ENVIRONMENT
.TP
.B TRAINMARK_HOME
The folder of environments, data sets and sources; default: $XDG_DATA_HOME/trainmark.
.TP
.B NO_COLOR
If set, nothing is coloured.
.SH VERBS
"""


def man_page(tree: Iterable[CommandInfo]) -> str:
    """Return the man page of all commands as roff."""
    return HEAD + "".join(map(_section, tree))


def _section(one: CommandInfo) -> str:
    lines = [f".SS trainmark {' '.join(one.words)}", _text(one.summary)]
    for flags, help_text in one.options:
        lines += [".TP", f".B {_text(flags)}", _text(help_text)]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return a text as roff: no character of it is a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
