"""Commands of Typer that keep the words after ``--``, or take their options in groups."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer
import typer.core

_WORDS = "trainmark.command"
"""The key in the context's ``meta`` of the words after ``--``."""
_UsageError: Any = typer.BadParameter.__base__


class WithCommand(typer.core.TyperCommand):
    """A command that keeps everything after ``--`` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and store those after it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS], args = tuple(args[at + 1 :]), args[:at]
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if "unexpected extra argument" in error.message:
                from trainmark.cli.suite_input import BEFORE_A_COMMAND

                error.message += f"; {BEFORE_A_COMMAND}"
            raise


def words_of(context: Any) -> tuple[str, ...] | None:
    """Return the words after ``--``; None without ``--``."""
    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    return words


def with_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return ``function`` for Typer: each field of its parameters that are dataclasses is an option of its own."""
    own, groups, spread = (
        inspect.signature(function, eval_str=True),
        dict[str, Any](),
        list[inspect.Parameter](),
    )
    for name, one in own.parameters.items():
        if not is_dataclass(one.annotation):
            spread.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name], hints = one.annotation, get_type_hints(one.annotation, include_extras=True)
        spread += [
            one.replace(name=option.name, default=option.default, annotation=hints[option.name])
            for option in fields(one.annotation)
        ]

    @wraps(function)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        function(**given)

    call.__signature__ = own.replace(parameters=spread)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in spread}
    return call
