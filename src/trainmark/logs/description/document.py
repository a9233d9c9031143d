"""The description of a log format in YAML: its keys, and the check of their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trainmark.documents import NamedText, parse_yaml, split_documents
from trainmark.errors import InputError, nearest
from trainmark.logs.model import Meaning, Scope
from trainmark.schema.precision import Precision

Source = Any
"""Where a fact is found: a pattern (its first group), ``= an expression``, ``{setting: name}``, ``{switch: name}`` or
``{pattern: …, within: …, words: {…}}``, or a list of these, of which the first that finds something counts."""
SCOPES = {"all": Scope.GLOBAL, "node": Scope.NODE, "device": Scope.DEVICE}
"""Whose rate is printed, by the word of ``rate_of``."""
MEANINGS = {
    "interval": Meaning.INTERVAL,
    "epoch": Meaning.RUNNING,
    "step": Meaning.SAMPLED,
    "epoch-or-interval": Meaning.RUNNING_OR_INTERVAL,
}
"""What a rate averages, by the word of ``rate_covers``."""

_REQUIRED = ("title", "unit")
_LISTS = ("records", "mark", "start", "required", "end", "doubts", "published", "examples")
_MAPPINGS = ("facts", "values", "figures", "sample")
_SWITCHES = (
    "accumulates",
    "samples_of_step",
    "counts_samples",
    "of_last_steps",
    "averages_since_start",
    "restarts_each_epoch",
    "may_count_from_one",
)
_SOURCES = ("resumed_from", "last_step", "last_epoch", "last_step_of_epoch")
_COUNTS = ("averages_from", "warmup_steps", "mean_of_last")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "launcher": ("paddle",),
    "rate_of": tuple(SCOPES),
    "rate_covers": tuple(MEANINGS),
    "fp16": tuple(Precision),
}


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """One log format as its YAML file describes it; patterns are regular expressions with placeholders.

    ``records`` match one training record each, the one with most matches is used. ``mark`` recognises a log without a
    record. ``rate_of`` says whose rate is printed: ``all``, ``node`` or ``device``; ``rate_covers`` what it averages:
    the ``interval`` since the previous record, the ``epoch`` so far, or one ``step``. ``settings`` is how the program
    prints its arguments: ``namespace``, ``dllogger``, or a pattern of two groups, name and value. ``launcher`` is the
    program whose lines give nodes and devices where the facts do not. ``facts`` and ``values`` say where each fact of
    the run, and each helping number, is found. ``figures`` are the program's own results: ``summary``, ``table``,
    ``tflops`` (per device), ``mfu`` (percent), ``mfu_share``. ``start`` matches the beginning of every complete log,
    and one of ``required`` is in each log of this program, but not in those of others that print the same records;
    ``end`` the end of a run. ``last_step``, ``last_epoch`` and ``last_step_of_epoch`` say where the counters are
    found that a complete run, or epoch, reaches. A printed time is the mean of the ``mean_of_last`` steps before it, if
    that is not 0. ``averages_since_start`` makes a resumed run doubtful, whose first
    step is ``resumed_from``. ``doubts`` are problems that a pattern in the log shows. ``sample`` is how a synthetic
    log is written. ``examples`` are logs with the number that they give.
    """

    name: str
    title: str
    unit: str
    records: tuple[Any, ...]
    mark: tuple[str, ...]
    program: str = ""
    source: str = ""
    framework: str | None = None
    rate_of: str = "all"
    rate_covers: str = "interval"
    settings: str | None = None
    launcher: str | None = None
    facts: Mapping[str, Source] = field(default_factory=dict)
    values: Mapping[str, Source] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    start: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    averages_since_start: bool = False
    resumed_from: Source = None
    last_step: Source = None
    last_epoch: Source = None
    last_step_of_epoch: Source = None
    doubts: tuple[Mapping[str, str], ...] = ()
    epoch_seconds: str | None = None
    accumulates: bool = False
    samples_of_step: bool = False
    counts_samples: bool = False
    of_last_steps: bool = False
    mean_of_last: int = 0
    restarts_each_epoch: bool = False
    averages_from: int = 0
    may_count_from_one: bool = False
    warmup_steps: int = 20
    fp16: str | None = None
    built_on: str | None = None
    without_records: str = "the log has no training record"
    published: tuple[Mapping[str, str], ...] = ()
    sample: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[Mapping[str, Any], ...] = ()
    where: str = ""


_KEYS = {each.name: each for each in fields(FormatDescription) if each.name != "where"}


def read_description(path: Path) -> FormatDescription:
    """Return the description in the YAML file ``path``; raise ``InputError`` with one line for the first mistake."""
    documents = split_documents(path)
    if len(documents) > 1:
        names = ", ".join(each.name for each in documents)
        raise InputError(f"{path}: describes several formats ({names}): write each to a file of its own")
    return described_in(documents[0])


def described_in(text: NamedText) -> FormatDescription:
    """Return the description in one document of a YAML file; raise ``InputError`` as above."""
    import yaml

    try:
        document = parse_yaml(text.text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(
            f"{text.path}{line}: is not YAML: {getattr(error, 'problem', None) or error}"
        ) from None
    where = str(text.path) if text.name == text.path.stem else f"{text.path}: {text.name}"
    return parse_description(document, where, text.name)


def parse_description(document: Any, where: str, default_name: str) -> FormatDescription:
    """Return the description in a loaded YAML document; raise ``InputError`` naming ``where`` and the key."""
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: expected keys with values (title, unit, records, …)")
    for key in document:
        if key not in _KEYS:
            raise InputError(
                f"{where}: unknown key '{key}'{nearest(str(key), _KEYS)} (known: {', '.join(_KEYS)})"
            )
    for key in _REQUIRED:
        if not document.get(key):
            raise InputError(f"{where}: the key '{key}' is missing")
    if not document.get("records") and not (document.get("figures") and document.get("mark")):
        raise InputError(
            f"{where}: the key 'records' is missing (only a program that prints nothing but results has none, "
            "and needs 'figures' and 'mark')"
        )
    values: dict[str, Any] = {"name": default_name, "mark": (), "records": ()}
    for key, value in document.items():
        values[key] = _checked(key, value, where)
    return FormatDescription(**values, where=where)


def _checked(key: str, value: Any, where: str) -> Any:
    if key in _CHOICES:
        if value is None and _KEYS[key].default is None:
            return value
        if value not in _CHOICES[key]:
            raise InputError(f"{where}: {key} is '{value}'; expected {' or '.join(_CHOICES[key])}")
        return value
    if key in _LISTS:
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        kind = (
            (str, Mapping)
            if key == "records"
            else Mapping
            if key in ("doubts", "published", "examples")
            else str
        )
        for item in items:
            if not isinstance(item, kind):
                raise InputError(
                    f"{where}: {key}: '{item}' is not {'keys with values' if kind is Mapping else 'text'}"
                )
        return tuple(items)
    if key in _SOURCES:
        return value
    wanted: tuple[type | tuple[type, ...], str] = (str, "text")
    if key in _MAPPINGS:
        wanted = (Mapping, "keys with values")
    elif key in _SWITCHES:
        wanted = (bool, "true or false")
    elif key in _COUNTS:
        wanted = (int, "a whole number")
    if value is None and _KEYS[key].default is not None:
        raise InputError(f"{where}: {key} has no value; expected {wanted[1]}")
    if value is not None and (
        not isinstance(value, wanted[0]) or (wanted[0] is int and isinstance(value, bool))
    ):
        raise InputError(f"{where}: {key} is '{value}'; expected {wanted[1]}")
    return value
