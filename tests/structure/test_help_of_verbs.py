"""What ``--help`` says of a verb with several commands, and how it names what they are given."""

import re

import pytest

from trainmark.cli.main import main

GROUPS = ("card", "data", "env", "reference", "store")
COMMANDS = (
    *(["data", name] for name in ("make", "convert", "index", "verify", "make-tokens", "make-masked")),
    *(["data", name] for name in ("make-clicks", "convert-clicks")),
    *(["card", name] for name in ("check", "show")),
    *(["env", name] for name in ("create", "check", "remove", "lock")),
    *(["store", "add"], ["reference", "show"], ["explain"], ["parse"], ["audit"], ["report"], ["run"]),
)


@pytest.mark.parametrize("verb", GROUPS)
def test_the_line_of_each_command_is_a_whole_sentence(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([verb, "--help"])

    _, lines = capsys.readouterr().out.split("Commands:\n")
    assert [line for line in lines.splitlines() if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_a_command_is_given_has_a_name_in_capitals_and_one_ellipsis(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--help"])

    usage = capsys.readouterr().out.splitlines()[0]
    named = re.findall(r"[\[{]([^]}]+)[]}]", usage.replace("[OPTIONS]", ""))
    assert named
    assert [name for name in named if not name.removesuffix(".csv").isupper()] == []
    assert "..." not in usage.replace("]...", "").replace("}...", "")
