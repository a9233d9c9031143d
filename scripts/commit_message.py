"""Check of commit messages: ``area: what changes`` in 72 characters, and a body that says why.

``commit_message.py FILE`` checks the message that git is about to commit (pre-commit, stage commit-msg);
``commit_message.py --range BASE..HEAD`` checks the commits of a range. Merge commits are exempt.
"""

import re
import subprocess
import sys
from pathlib import Path

LIMIT = 72
FORM = re.compile(r"[a-z0-9][\w./-]*(, [a-z0-9][\w./-]*)*: \S")
EXEMPT = re.compile(r"Merge |fixup! |squash! |amend! |Revert \"")
SCISSORS = re.compile(r"^. -+ >8 -+$", re.MULTILINE)


def find_problems(message: str) -> list[str]:
    """Return what is wrong with a message, one sentence each."""
    text = SCISSORS.split(message)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return ["the message is empty"]
    subject, rest = lines[0], lines[1:]
    if EXEMPT.match(subject):
        return []
    return [*_subject_problems(subject), *_body_problems(rest)]


def _subject_problems(subject: str) -> list[str]:
    problems = []
    if len(subject) > LIMIT:
        problems.append(
            f"the subject has {len(subject)} characters: shorten it to {LIMIT}, details go to the body"
        )
    if not FORM.match(subject):
        problems.append("the subject must have the form 'area: what changes', such as 'logs: read timm 1.0'")
    if subject.endswith("."):
        problems.append("the subject must not end with a full stop")
    return problems


def _body_problems(rest: list[str]) -> list[str]:
    body = [line for line in rest if line and not re.match(r"[A-Z][\w-]+: \S+.*$", line)]
    if not body:
        return ["the body is missing: leave a blank line and say why the change is needed"]
    problems = []
    if rest[0]:
        problems.append("the second line must be blank")
    if len(" ".join(body).split()) < 4:
        problems.append("the body is too short to say why the change is needed")
    # What is indented is quoted output; an address cannot be wrapped.
    long = [line for line in body if len(line) > LIMIT and not line.startswith("    ") and "://" not in line]
    if long:
        problems.append(f"wrap the body at {LIMIT} characters: '{long[0][:40]}…' has {len(long[0])}")
    return problems


def _messages_of(span: str) -> list[tuple[str, str]]:
    """Return the abbreviated hash and the message of each commit of a range, merges left out."""
    ran = subprocess.run(
        ["git", "log", "--no-merges", "-z", "--format=%h%n%B", span],
        check=True,
        capture_output=True,
        text=True,
    )
    pairs = [entry.partition("\n") for entry in ran.stdout.split("\0") if entry.strip()]
    return [(name, message) for name, _, message in pairs]


def main(arguments: list[str]) -> int:
    """Print the problems of a file's message or of a range's messages; return 1 if there are any."""
    match arguments:
        case ["--range", span]:
            messages = _messages_of(span)
        case [name]:
            messages = [(Path(name).name, Path(name).read_text(encoding="utf-8"))]
        case _:
            print("usage: commit_message.py FILE | --range BASE..HEAD", file=sys.stderr)
            return 2
    problems = [f"{name}: {problem}" for name, message in messages for problem in find_problems(message)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
