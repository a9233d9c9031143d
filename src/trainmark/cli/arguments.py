"""Options of a verb that must start fast, read from its function's signature by ``argparse``.

Typer needs a fifth of a second of CPU, because it loads pydantic for the types of the options.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, Never, get_args

from trainmark.errors import InputError, nearest

_OTHER_WORDS = (("--gpus", "--devices"), ("--nodes", "--hosts"))
"""Options of which a verb has one, under the name that fits what it reads."""


def unknown_option(flag: str, known: Collection[str]) -> str:
    """Return the error for an unknown option, with the one of the ``known`` that is probably meant."""
    for words in _OTHER_WORDS:
        if flag in words and (meant := next((word for word in words if word in known), None)):
            return f"no option '{flag}'; did you mean '{meant}'?"
    names = [word.removeprefix("--") for word in known if word.startswith("--")]
    near = nearest(flag.lstrip("-"), names).replace(" '", " '--")
    return f"no option '{flag}'{near}"


class Argument(NamedTuple):
    """The words of a command line that are no options: their name in the help, and a sentence.

    A parameter of the type ``list`` takes any number of them; any other takes one, which must be given.
    """

    metavar: str
    help: str


class Option(NamedTuple):
    """One option: a sentence for the help, its flags if they are not the parameter's name, and its smallest value."""

    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    min: int | None = None


class Command:
    """A function as a verb of one command; its parameters are ``Annotated`` with an ``Argument`` or an ``Option``.

    Each has a default, but for an argument that must be given. An option's type is ``str``, ``Path``, ``int``, a
    ``StrEnum`` or ``bool`` (a switch). The function returns the exit code.
    """

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function

    def __call__(self, args: Sequence[str], prog_name: str, **_: Any) -> int:
        """Call the function with ``args``; return its exit code, 0 after ``--help``; raise ``InputError``."""
        if "--help" in args:
            sys.stdout.write(self._parser(prog_name).format_help())
            return 0
        values, unknown = self._parser(prog_name).parse_known_intermixed_args(args)
        if unknown:
            flag = unknown[0].partition("=")[0]
            if not flag.startswith("-"):
                raise InputError(f"unexpected argument '{unknown[0]}' (see {prog_name} --help)")
            raise InputError(f"{unknown_option(flag, self._flags())} (see {prog_name} --help)")
        return self._function(**vars(values))

    def _parser(self, prog_name: str) -> argparse.ArgumentParser:
        parameters, given = self._parameters(), self._function.__defaults__ or ()
        defaults = dict(zip(list(parameters)[len(parameters) - len(given) :], given, strict=True))
        words = [
            f"[{declared.metavar}]..." if name in defaults else declared.metavar
            for name, (_, declared) in parameters.items()
            if isinstance(declared, Argument)
        ]
        usage = " ".join([prog_name, "[OPTIONS]", *words])
        parser = _Parser(prog_name, usage, self._function.__doc__ or "")
        arguments, options = (parser.add_argument_group(name) for name in ("Arguments", "Options"))
        for name, (kind, declared) in parameters.items():
            if isinstance(declared, Argument):
                number = {"nargs": "*"} if name in defaults else {"type": kind}
                arguments.add_argument(name, metavar=declared.metavar, help=declared.help, **number)
            else:
                keywords = {"dest": name, "default": defaults[name], **_action(kind, declared)}
                options.add_argument(*_flags(name, declared), **keywords)
        options.add_argument(
            "--help", action="store_true", default=argparse.SUPPRESS, help="Print this help."
        )
        return parser

    def _parameters(self) -> dict[str, tuple[type, Argument | Option]]:
        """Return the type of each parameter, without ``None``, and its declaration."""
        found = {}
        for name, annotation in self._function.__annotations__.items():
            if name != "return":
                types = [one for one in get_args(annotation.__origin__) if one is not NoneType]
                found[name] = (types[0] if types else annotation.__origin__, annotation.__metadata__[0])
        return found

    def options(self) -> list[tuple[str, str]]:
        """Return each option's flags, with the name of its value, and its help."""
        found = []
        for name, (kind, declared) in self._parameters().items():
            if isinstance(declared, Option):
                value = "" if kind is bool else f" {declared.metavar or ('N' if kind is int else 'TEXT')}"
                found.append((f"{' '.join(_flags(name, declared))}{value}", declared.help))
        return found

    def _flags(self) -> list[str]:
        declared = ((name, one) for name, (_, one) in self._parameters().items())
        return [flag for name, one in declared if isinstance(one, Option) for flag in _flags(name, one)]


class _Parser(argparse.ArgumentParser):
    """A parser with the words of the other verbs: ``Usage:``, and an error of one line."""

    def __init__(self, prog: str, usage: str, description: str) -> None:
        super().__init__(
            prog,
            usage=usage,
            description="\n".join(f"  {line.strip()}".rstrip() for line in description.strip().splitlines()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )

    def format_help(self) -> str:
        """Return the help."""
        return super().format_help().replace("usage:", "Usage:", 1)

    def error(self, message: str) -> Never:
        """Raise ``InputError`` with the message and a pointer to the help."""
        raise InputError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")


def _flags(name: str, option: Option) -> tuple[str, ...]:
    return option.flags or (f"--{name.replace('_', '-')}",)


def _action(kind: type, option: Option) -> dict[str, Any]:
    """Return the keywords of ``add_argument`` for an option of a type."""
    # A "%" in a help text of argparse begins a placeholder.
    text = option.help.replace("%", "%%")
    if kind is bool:
        return {"action": "store_true", "help": text}
    if kind is int:
        return {"type": _whole_number(option.min), "metavar": option.metavar or "N", "help": text}
    if kind in (str, Path):
        return {"type": kind, "metavar": option.metavar or "TEXT", "help": text}
    names = list(map(str, kind))  # type: ignore[call-overload]
    return {"type": _choice(kind, names), "metavar": f"<{'|'.join(names)}>", "help": text}


def _whole_number(least: int | None) -> Callable[[str], int]:
    def convert(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is not a whole number") from None
        if least is not None and value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return convert


def _choice(kind: Callable[[str], Any], names: Sequence[str]) -> Callable[[str], Any]:
    def convert(word: str) -> Any:
        if word not in names:
            raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(names)}{nearest(word, names)}")
        return kind(word)

    return convert
