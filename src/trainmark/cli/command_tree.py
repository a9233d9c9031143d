"""All commands with their options, as completion and the man page need them."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from trainmark.cli.main import VERBS


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A verb, or a command of one: its words, what it does, its options with their help, and its commands."""

    words: tuple[str, ...]
    summary: str
    options: tuple[tuple[str, str], ...]
    commands: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the options, without the values that they take."""
        return tuple(flag for text, _ in self.options for flag in text.split(" ") if flag.startswith("-"))


def command_tree() -> Iterator[CommandInfo]:
    """Yield every verb, and after it the commands that it has."""
    for verb, summary in VERBS.items():
        app = import_module(f"trainmark.cli.{verb}").app
        options = getattr(app, "options", None)
        if options is not None:
            yield CommandInfo((verb,), summary, (*options(), _HELP))
            continue
        yield from _of_typer(verb, summary, app)


_HELP = ("--help", "Print this help.")


def _of_typer(verb: str, summary: str, app: Any) -> Iterator[CommandInfo]:
    from typer.main import get_command

    command: Any = get_command(app)
    inner: dict[str, Any] = getattr(command, "commands", {})
    yield CommandInfo((verb,), summary, (*_options(command), _HELP), tuple(inner))
    for name, one in inner.items():
        first = " ".join((one.help or "").partition("\n\n")[0].split())
        yield CommandInfo((verb, name), first, (*_options(one), _HELP))


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.hidden or "--help" in parameter.opts:
            continue
        value = "" if parameter.is_flag else f" {getattr(parameter, 'metavar', None) or 'VALUE'}"
        flags = " ".join([*parameter.opts, *parameter.secondary_opts])
        yield f"{flags}{value}", " ".join((parameter.help or "").split())
