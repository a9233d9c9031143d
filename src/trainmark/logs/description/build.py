"""A log format from its description: the ``Format`` that a program's module may define."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trainmark.errors import InputError
from trainmark.logs.description.document import MEANINGS, SCOPES, FormatDescription
from trainmark.logs.description.patterns import (
    Blocks,
    Settings,
    Sources,
    check_fields,
    compile_pattern,
    join_lines,
    merge_lines,
    number_epochs,
    read_sources,
    thin_means,
)
from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    config_lines,
    dll_parameters,
    ends_with,
    namespace_arguments,
    unknown_end,
)
from trainmark.logs.model import EndState, Facts, Meaning
from trainmark.schema.precision import Precision

_SETTINGS: Mapping[str, Callable[[LogContext], dict[str, str]]] = {
    "namespace": namespace_arguments,
    "dllogger": dll_parameters,
}
_T = TypeVar("_T")
_NAMED = re.compile(rb"\(\?P<\w+>")
_FIGURES = ("summary", "table", "tflops", "mfu", "mfu_share")
_RECORD_KEYS = ("pattern", "lines", "unit", "rate_covers", "overall")
_SIGNAL = re.compile(rb"Terminating with signal \d+|KeyboardInterrupt")
"""Printed by ``paddle.distributed.launch``; lines of other ranks may follow."""


def build_format(description: FormatDescription) -> Format:
    """Return the format; raise ``InputError`` naming file and key for what cannot be used."""
    where, text = description.where, description
    patterns, units, meanings, overall = _records(text)
    settings = _settings(text)
    sources = read_sources(text.facts, text.values, where, text.launcher)

    def facts(context: LogContext) -> Facts:
        return sources.read(context.text, settings(context) if settings else {})

    for name in text.figures:
        if name not in _FIGURES:
            raise InputError(f"{where}: figures: no figure '{name}' (known: {', '.join(_FIGURES)})")
    header = _joined(text.start, f"{where}: start") if text.start else None
    doubts, notes = None, None
    if text.doubts or text.averages_since_start:
        from trainmark.logs.description.doubts import make_doubts

        doubts, notes = make_doubts(text, sources, header, settings)
    return Format(
        name=text.name,
        title=text.title,
        framework=text.framework,
        unit=text.unit,
        scope=SCOPES[text.rate_of],
        meaning=MEANINGS[text.rate_covers],
        records=patterns,
        pattern_units=units,
        pattern_meanings=meanings,
        overall=overall,
        transform=_transform(text),
        mark=_joined(text.mark, f"{where}: mark") if text.mark else _mark_of(patterns),
        parameters=settings,
        facts=facts,
        end_state=make_end(text, _joined(text.end, f"{where}: end") if text.end else None, sources, settings),
        figures={name: compile_pattern(str(one), f"{where}: {name}") for name, one in text.figures.items()},
        header=header,
        required=_joined(text.required, f"{where}: required") if text.required else None,
        doubts=doubts,
        notes=notes,
        accumulates=text.accumulates,
        samples_of_step=text.samples_of_step,
        counts_samples=text.counts_samples,
        of_last_steps=text.of_last_steps,
        averages_from=text.averages_from,
        may_count_from_one=text.may_count_from_one,
        warmup_steps=text.warmup_steps,
        epoch_seconds=compile_pattern(text.epoch_seconds, f"{where}: epoch_seconds")
        if text.epoch_seconds
        else None,
        fp16=Precision(text.fp16) if text.fp16 else None,
        without_records=text.without_records,
        published=_published(text),
        built_on=text.built_on,
    )


def _mark_of(patterns: tuple[re.Pattern[bytes], ...]) -> re.Pattern[bytes]:
    """Return a pattern that matches where one of ``patterns`` does; without names, as two have the same fields."""
    joined = b"|".join(b"(?:" + _NAMED.sub(b"(", one.pattern) + b")" for one in patterns)
    try:
        return re.compile(joined, re.MULTILINE)
    except re.error:  # a pattern refers to one of its own groups
        return patterns[0]


def _records(
    text: FormatDescription,
) -> tuple[tuple[Any, ...], tuple[str, ...], tuple[Meaning, ...], int | None]:
    """Return the patterns of records, their units and meanings if they differ, and the index of the overall one."""
    patterns, units, meanings, overall = [], [], [], None
    for number, record in enumerate(text.records):
        where = f"{text.where}: records[{number}]"
        keys = record if isinstance(record, Mapping) else {"pattern": record}
        unknown = [key for key in keys if key not in _RECORD_KEYS]
        if unknown or ("pattern" in keys) == ("lines" in keys):
            raise InputError(
                f"{where}: expected a pattern, or keys: pattern or lines, and {', '.join(_RECORD_KEYS[2:])}"
            )
        several = join_lines(keys["lines"], where) if "lines" in keys else None
        pattern = compile_pattern(several or str(keys["pattern"]), where)
        if several is None:
            check_fields(pattern, where)
        patterns.append(pattern)
        units.append(str(keys.get("unit", text.unit)))
        covers = keys.get("rate_covers", text.rate_covers)
        if covers not in MEANINGS:
            raise InputError(f"{where}: rate_covers is '{covers}'; expected {' or '.join(MEANINGS)}")
        meanings.append(MEANINGS[covers])
        overall = number if keys.get("overall") else overall
    return tuple(patterns), _if_they_differ(units), _if_they_differ(meanings), overall


def _transform(text: FormatDescription) -> Callable[[Blocks], Blocks] | None:
    """Return the function that completes or thins the rows of records; None if their lines are the records."""
    several = [
        record["lines"] for record in text.records if isinstance(record, Mapping) and "lines" in record
    ]
    found = list(dict.fromkeys(str(lines[0]) for lines in several))
    if len(found) > 1:
        raise InputError(f"{text.where}: records: those with 'lines' must have the same first line")
    for key, is_given in (
        ("restarts_each_epoch", text.restarts_each_epoch),
        ("mean_of_last", text.mean_of_last),
    ):
        if found and is_given:
            raise InputError(f"{text.where}: {key} is not for records with 'lines'")
    if text.restarts_each_epoch and text.mean_of_last:
        raise InputError(f"{text.where}: mean_of_last is not for restarts_each_epoch")
    if text.mean_of_last:
        return thin_means(text.mean_of_last)
    if text.restarts_each_epoch:
        return number_epochs
    return merge_lines(compile_pattern(found[0], text.where)) if found else None


def _if_they_differ(values: list[_T]) -> tuple[_T, ...]:
    return tuple(values) if len(set(values)) > 1 else ()


def _settings(text: FormatDescription) -> Callable[[LogContext], dict[str, str]] | None:
    if text.settings is None or text.settings in _SETTINGS:
        return _SETTINGS.get(text.settings or "")
    pattern = compile_pattern(text.settings, f"{text.where}: settings")
    if pattern.groups != 2:
        raise InputError(f"{text.where}: settings: the pattern needs two groups, (name) and (value)")
    return lambda context: config_lines(context, pattern)


def _published(text: FormatDescription) -> tuple[Published, ...]:
    for number, one in enumerate(text.published):
        if set(one) != {"rule", "by"}:
            raise InputError(f"{text.where}: published[{number}]: expected the keys rule and by")
    return tuple(Published(str(one["rule"]), str(one["by"])) for one in text.published)


def _joined(patterns: tuple[str, ...], where: str) -> Any:
    return compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns), where)


def make_end(
    text: FormatDescription,
    printed: Any,
    sources: Sources,
    settings: Callable[[LogContext], Settings] | None,
) -> Callable[[LogContext], EndState]:
    """Return the function that tells whether a log has the end of its run.

    ``printed`` is the compiled pattern of ``end``. A log that stops before ``last_step_of_epoch`` is incomplete, one
    that reaches it may be complete; a run is complete at its ``last_step`` in its ``last_epoch`` after its ``end``.
    """
    line = ends_with(printed) if printed else None
    if text.last_step is None and text.last_epoch is None and text.last_step_of_epoch is None:
        return line or unknown_end
    step, epoch, step_of_epoch = (
        sources.number(source, f"{text.where}: {key}")
        for key, source in (
            ("last_step", text.last_step),
            ("last_epoch", text.last_epoch),
            ("last_step_of_epoch", text.last_step_of_epoch),
        )
    )

    def by_counters(context: LogContext) -> EndState:
        words = settings(context) if settings else {}
        next_step = context.last_step + context.step_interval if context.last_step is not None else 0
        most = step_of_epoch(context.text, words)
        if most is not None and next_step <= most:
            return EndState.MISSING
        reached = []
        for source, find, value in (
            (text.last_step, step, next_step - 1),
            (text.last_epoch, epoch, context.last_epoch or 0),
        ):
            if source is not None:
                total = find(context.text, words)
                if total is None:
                    return EndState.UNKNOWN
                reached.append(value >= total)
        if line is not None:
            reached.append(line(context) is EndState.FOUND)
        if not reached:
            return EndState.UNKNOWN
        return EndState.FOUND if all(reached) else EndState.MISSING

    def end_state(context: LogContext) -> EndState:
        found = by_counters(context)
        is_stopped = text.launcher is not None and _SIGNAL.search(context.tail) is not None
        return EndState.STOPPED if is_stopped and found is not EndState.FOUND else found

    return end_state
