"""Options of a Typer command in groups: each field of a dataclass is an option of its own."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from trainmark.cli.typer_commands import with_groups


@dataclass(frozen=True)
class Size:
    """A group with a number that has a smallest value, and a list."""

    width: Annotated[int, typer.Option(min=1)] = 3
    names: Annotated[list[str] | None, typer.Option("--name")] = None


def _called(*words: str) -> tuple[str, Size, bool]:
    app, found = typer.Typer(add_completion=False), list[tuple[str, Size, bool]]()

    @app.command()
    @with_groups
    def command(place: str, *, size: Size, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        found.append((place, size, as_json))

    app(args=list(words), standalone_mode=False)
    (call,) = found
    return call


def test_options_of_a_group_make_its_value_and_others_are_passed_as_they_are() -> None:
    assert _called("here", "--width", "5", "--name", "a", "--name", "b", "--json") == (
        "here",
        Size(5, ["a", "b"]),
        True,
    )


def test_a_group_without_options_has_its_own_defaults() -> None:
    assert _called("here") == ("here", Size(), False)


def test_the_smallest_value_of_a_field_holds() -> None:
    with pytest.raises(Exception, match="greater than or equal to 1"):
        _called("here", "--width", "0")
