"""Refuse to add a run to runs of a different program, command, environment or data set.

The entries of each part are stored once per result directory, in ``identity/``, so that an error can name the change.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from trainmark.campaign.data_files import describe_change
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.files import write_atomically
from trainmark.schema.case import Case
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.names import IDENTITY
from trainmark.schema.outcome import Entries, Identity, OutcomeRecord, PartName
from trainmark.schema.plan import Plan

SOURCE_CHANGED = "source-changed"
"""The code of the doubt that a program changed while it ran."""

_SHOWN = 3
_LONGEST = 60


class UnlikeRunsError(InputError):
    """A run differs from earlier runs of its case and cannot be pooled with them."""


def keep_entries(directory: ResultDirectory, parts: Iterable[Entries]) -> None:
    """Write the entries of parts that the directory does not have yet."""
    folder = directory.path / IDENTITY
    folder.mkdir(exist_ok=True)
    for entries in parts:
        path = folder / entries.part.entries_file
        if not path.exists():
            write_atomically(path, entries.model_dump_json(indent=1) + "\n")


def identity_of(parts: Iterable[Entries]) -> Identity:
    """Return the identity that consists of these parts."""
    return Identity.of(tuple(entries.part for entries in parts))


def require_same_identity(directory: ResultDirectory, case: Case, parts: tuple[Entries, ...]) -> None:
    """Raise ``UnlikeRunsError`` with the differences if an earlier run of the case ran something else.

    Only the parts in ``parts`` are compared. Runs by versions of trainmark without identities are skipped.
    """
    now = identity_of(parts)
    for record in directory.finished(case).values():
        if record.identity is None or record.started_at is None:
            continue
        earlier = record.identity.limited_to(now)
        if changes := earlier.describe_changes(now):
            raise UnlikeRunsError(
                f"{directory.path}: run {record.repeat} of {case.id} ran something else: "
                f"{changes}{_how(directory, earlier, parts)}; start a new --out, or delete those runs"
                f"{_way_out(parts, earlier)}"
            )


def changed_meanwhile(before: Iterable[Entries], after: Iterable[Entries]) -> tuple[Suspicion, ...]:
    """Return the doubts that the program, or its data files, differ after a run from before it."""
    held, now = ({found.name: found for found in parts} for parts in (before, after))
    return (*_source_changes(held, now), *_data_changes(held, now))


def _data_changes(held: Mapping[PartName, Entries], now: Mapping[PartName, Entries]) -> tuple[Suspicion, ...]:
    if PartName.FILES not in held or PartName.FILES not in now:
        return ()
    changes = list(_file_changes(held[PartName.FILES].entries, now[PartName.FILES].entries))
    if not changes:
        return ()
    sentence = f"data files changed while the program ran: {', '.join(changes)}"
    return (Suspicion(code="data-changed", sentence=sentence, about=About.WORK),)


def _file_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name, was in before.items():
        if name in now and now[name] != was:
            yield describe_change(name, was, now[name])


def _source_changes(
    held: Mapping[PartName, Entries], now: Mapping[PartName, Entries]
) -> tuple[Suspicion, ...]:
    source, again = held[PartName.SOURCE], now[PartName.SOURCE]
    changes = list(_entry_changes(source.entries, again.entries))
    if not changes:
        return ()
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    sentence = (
        f"the program changed while it ran: {again.word}: {', '.join(changes[:_SHOWN])}{more}; "
        "if it writes these files itself, list them under 'ignore' of the card's source"
    )
    return (Suspicion(code=SOURCE_CHANGED, sentence=sentence, about=About.WORK),)


def require_same_commands(directory: ResultDirectory, case: Case, record: OutcomeRecord, plan: Plan) -> None:
    """Raise ``UnlikeRunsError`` if a run without an identity was started by other commands than ``plan``.

    Such runs are by older versions of trainmark. ``plan`` is for the same repeat in the same folder. Ports are not
    compared.
    """
    folder = str(directory.run(case, record.repeat).absolute())
    was = [_portless(text, folder, case) for text in record.commands]
    now = [_portless(command.text(), folder, case) for command in plan.commands]
    if was and was != now:
        pairs = (pair for pair in zip(was, now, strict=False) if pair[0] != pair[1])
        before, after = next(pairs, (f"{len(was)} commands", f"{len(now)} commands"))
        difference = _first_difference(before, after)
        raise UnlikeRunsError(
            f"{directory.path}: run {record.repeat} of {case.id} was started by a different command ({difference}); "
            "start a new --out, or delete those runs"
        )


def _how(directory: ResultDirectory, earlier: Identity, parts: tuple[Entries, ...]) -> str:
    """Return the entries in which the parts differ, as far as the earlier ones can be read."""
    now = {entries.name: entries for entries in parts}
    changes: list[str] = []
    for was, _ in earlier.changes(identity_of(parts)):
        if was is None or was.name not in now:
            continue
        try:
            text = (directory.path / IDENTITY / was.entries_file).read_bytes()
            before = Entries.model_validate_json(text).entries
        except (OSError, ValidationError):
            continue
        compare = _file_changes if was.name is PartName.FILES else _entry_changes
        changes += list(compare(before, now[was.name].entries))
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return f": {', '.join(changes[:_SHOWN])}{more}" if changes else ""


def _entry_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        was, is_ = before.get(name), now.get(name)
        if was == is_:
            continue
        if was is None:
            yield f"{name} is new"
        elif is_ is None:
            yield f"{name} was removed"
        elif _is_digest(was) and _is_digest(is_):
            yield f"{name} has changed"
        else:
            yield f"{name} was {_first_difference(was, is_)}"


def _is_digest(text: str) -> bool:
    return len(text.removeprefix("sampled ")) == 64 and " " not in text.removeprefix("sampled ")


def _first_difference(was: str, now: str) -> str:
    """Return the words in which two texts differ, without their common start and end."""
    left, right = was.split(" "), now.split(" ")
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    shown = [
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in map(" ".join, (left, right))
    ]
    return f"'{shown[0]}' and is now '{shown[1]}'"


def _way_out(parts: tuple[Entries, ...], earlier: Identity) -> str:
    changed = {pair.name for both in earlier.changes(identity_of(parts)) for pair in both if pair is not None}
    folder = any(entries.name is PartName.SOURCE and entries.word.startswith("folder ") for entries in parts)
    if PartName.SOURCE in changed and folder:
        return " (if the program writes these files itself, list them under 'ignore' of the card's source)"
    return ""


def _portless(text: str, folder: str, case: Case) -> str:
    """Return a command's words without the path of the run's folder and without rendezvous ports."""
    end = str(Path(*Path(folder).parts[-3:]))
    words = []
    for word in text.split(" "):
        head, found, tail = word.partition(end)
        start = head[: head.find("/")] if "/" in head else head
        words.append(f"{start}RUN{tail}" if found else word)
    if case.world_size > 1:
        words = ["".join(_numbers_out(word)) for word in words]
    return " ".join(words)


def _numbers_out(word: str) -> Iterator[str]:
    """Yield a word's pieces, with numbers that can be ports replaced."""
    number = ""
    for character in f"{word} ":
        if character.isdigit():
            number += character
            continue
        yield "PORT" if number and 1024 <= int(number) <= 65535 else number
        yield character
        number = ""
