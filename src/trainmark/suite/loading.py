"""Reading a suite's YAML file into a ``Suite``; every error names its line.

The cards of a suite state values of its cases, which the suite need not repeat. The published logs of a suite are named
by its scheme.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainmark.documents import Document, Key, documents_of, parse_document, read_document
from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.case import BUILT_IN, SYNTHETIC, Case, axes_of, case_of
from trainmark.schema.suite import Dataset, NamingScheme, ProfileMode, Suite
from trainmark.suite.matrix import Matrix, Point, RuleError, expand
from trainmark.suite.selection import select, select_baselines
from trainmark.tasks import TASKS, find_task, is_neutral, own_axes, task_of_model, task_of_source


@dataclass(frozen=True, slots=True)
class CardCases:
    """The framework, task and ``fixed`` axes of each workload that the cards of a suite, or shipped ones, describe.

    A card that cannot be read is left out: the reader of cards reports it.
    """

    _by_name: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)

    def defaults(self, point: Point) -> Point:
        """Return the values that the card of ``point`` states and the point does not.

        They are empty if no card, or more than one, has the point's workload and its other values. ``fixed`` axes are
        values of a case of the neutral task only: other tasks have a default on each axis.
        """
        name = str(point.get("workload", BUILT_IN))
        found = [
            facts
            for facts in self._by_name.get(name) or _shipped_facts(name)
            if all(facts[axis] == point.get(axis, facts[axis]) for axis in ("framework", "task"))
        ]
        if len(found) != 1:
            return {}
        (facts,) = found
        stated = {axis: facts[axis] for axis in ("framework", "task")}
        return stated | (facts["fixed"] if is_neutral(facts["task"]) else {})


def read_card_cases(document: Document) -> CardCases:
    """Return what the cards under ``cards`` of a suite's document state about cases."""
    paths = document.values.get("cards")
    found: dict[str, tuple[Point, ...]] = {}
    for path in paths if isinstance(paths, list) else ():
        facts = _facts_of_file(document.path.resolve().parent / path) if isinstance(path, str) else None
        if facts is not None:
            found[facts["name"]] = (*found.get(facts["name"], ()), facts)
    return CardCases(found)


@cache
def _shipped_facts(name: str) -> tuple[Point, ...]:
    """Return the facts of the shipped card of a program; empty if there is none."""
    if name == BUILT_IN:
        return ()
    try:
        found = [
            _facts(parse_document(one.text, one.path))
            for one in documents_of("programs/cards")
            if one.name == name
        ]
    except InputError:
        return ()
    return tuple(facts for facts in found if facts is not None)


def _facts_of_file(path: Path) -> dict[str, Any] | None:
    try:
        return _facts(read_document(path))
    except InputError:
        return None


def _facts(document: Document) -> dict[str, Any] | None:
    card = document.values
    if not isinstance(card, dict) or not isinstance(card.get("source"), dict):
        return None
    name, framework, fixed = card.get("name"), card.get("framework"), card.get("fixed") or {}
    task = card.get("task", task_of_source(str(card["source"].get("kind"))))
    words = (name, framework, task)
    if not all(isinstance(word, str) for word in words) or task not in TASKS or not isinstance(fixed, dict):
        return None
    return {"name": name, "framework": framework, "task": task, "fixed": fixed}


MAX_CASES = 100_000
"""The largest number of cases; a larger matrix is an error."""

_COUNTS = ("batch_per_device", "nodes", "devices_per_node")
"""Axes on which any integer from 1 is valid, whatever the other axes are."""
_MATRIX_KEYS = ("defaults", "axes", "zip", "include", "exclude")
_SUITE_KEYS = tuple(name for name in Suite.model_fields if name != "cases")


def load_suite(path: Path) -> Suite:
    """Read and check the suite in ``path`` and expand its matrix.

    Raises ``InputError`` naming file, line, key and, for an unknown word, the nearest valid one:
    for an unknown key or value, a wrong type, a rule that matches nothing, and a matrix of no cases.
    """
    return _checked(read_document(path))


def parse_suite(text: str, name: str) -> Suite:
    """Read a resolved suite, as ``dump_suite`` wrote it; ``name`` is its name in errors."""
    return _checked(parse_document(text, Path(name)))


def _checked(document: Document) -> Suite:
    path, values = document.path, document.values
    if not isinstance(values, dict):
        raise InputError(f"{path}:1: a suite is a mapping with 'name' and 'axes' (or 'cases')")
    known = (*_SUITE_KEYS, *_MATRIX_KEYS, "cases")
    for key in values:
        if key not in known:
            raise document.error(
                (key,), f"is not a key of a suite{nearest(str(key), known)} (known: {', '.join(known)})"
            )
    cases = _listed(document) if "cases" in values else _expanded(document)
    settings = {key: values[key] for key in _SUITE_KEYS if values.get(key) is not None}
    try:
        suite = Suite.model_validate(settings | {"cases": tuple({case.id: case for case in cases}.values())})
    except ValidationError as error:
        raise explained(document, (), error, Suite) from None
    _check_environments(document, suite)
    _check_data(document, suite)
    _check_names(document, suite)
    _check_baseline(document, suite)
    _check_required(document, suite)
    suite = suite.model_copy(update={"datasets": _checked_datasets(document, suite)})
    return _with_absolute_paths(suite, path.resolve().parent)


def _check_baseline(document: Document, suite: Suite) -> None:
    """Raise ``InputError`` if ``baseline`` selects no case, or several of one model."""
    if suite.baseline is None:
        return
    try:
        select_baselines(suite.cases, suite.baseline, "the expression")
    except InputError as error:
        raise document.error(("baseline",), str(error)) from None


def _check_required(document: Document, suite: Suite) -> None:
    """Raise ``InputError`` if a requirement selects no case."""
    for at, one in enumerate(suite.require):
        if one.only is not None:
            try:
                select(suite.cases, one.only, "the expression")
            except InputError as error:
                raise document.error(("require", at, "only"), str(error)) from None


def dump_suite(suite: Suite) -> str:
    """Return the resolved suite as YAML that ``load_suite`` reads back to an equal suite."""
    values = suite.model_dump(mode="json")
    values["cases"] = [_short(case) for case in suite.cases]
    if not values["gates"]["off"]:
        del values["gates"]
    if not values["side_by_side"]:
        del values["side_by_side"]
    if suite.profile is ProfileMode.OFF:
        del values["profile"]
    values["require"] = [one.model_dump(mode="json", exclude_none=True) for one in suite.require] or None
    for key in ("budget", "launcher", "baseline", "require"):
        if values[key] is None:
            del values[key]
    for dataset in values["datasets"].values():
        if dataset["task"] is None:
            del dataset["task"]
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)


def _short(case: Case) -> dict[str, Any]:
    """Return the values of a case that are not defaults; its identity and its task's axes are always included.

    A task's defaults differ by model, can depend on another axis, and may change in a later version.
    """
    values = case.model_dump(mode="json")
    defaults = {"where": ""} | case_of(task=case.task, model=case.model).model_dump(mode="json")
    always = ("framework", "model", "precision", "batch_per_device", *own_axes(case.task))
    found = {axis: value for axis, value in values.items() if axis in always or value != defaults[axis]}
    return found if case.task == task_of_model(None) else {"task": case.task} | found


def _listed(document: Document) -> list[Case]:
    clash = next((key for key in _MATRIX_KEYS if key in document.values), None)
    if clash:
        raise document.error((clash,), "cannot be combined with 'cases', which already lists every case")
    points = _mappings(document, ("cases",))
    if not points:
        raise document.error(("cases",), "lists no case")
    cards = read_card_cases(document)
    return [_case(document, ("cases", i), point, {}, cards) for i, point in enumerate(points)]


def _expanded(document: Document) -> list[Case]:
    defaults = _mapping(document, ("defaults",))
    cards = read_card_cases(document)
    for axis, value in defaults.items():
        _axis(document, ("defaults", axis), [value], one=True)
    axes = {
        axis: _axis(document, ("axes", axis), values)
        for axis, values in _mapping(document, ("axes",)).items()
    }
    zips = [
        {axis: _axis(document, ("zip", i, axis), values) for axis, values in group.items()}
        for i, group in enumerate(_mappings(document, ("zip",)))
    ]
    include = _mappings(document, ("include",))
    for i, point in enumerate(include):
        _case(document, ("include", i), point, defaults, cards)
    exclude = [
        {axis: _axis(document, ("exclude", i, axis), values) for axis, values in rule.items()}
        for i, rule in enumerate(_mappings(document, ("exclude",)))
    ]
    if not (axes or zips or include):
        raise InputError(
            f"{document.path}:1: the matrix has no cases: give 'axes', 'zip', 'include' or 'cases'"
        )
    try:
        points = expand(Matrix(axes, tuple(zips), tuple(include), tuple(exclude), defaults), limit=MAX_CASES)
    except RuleError as error:
        raise document.error(error.key, str(error)) from None
    if not points:
        raise document.error(("exclude",), "leaves no case: the matrix is empty")
    cases = list(_cases(document, points, defaults, cards))
    _check_defaults(document, defaults, cases)
    return cases


def _cases(document: Document, points: Sequence[Point], defaults: Point, cards: CardCases) -> Iterator[Case]:
    """Yield the case of each point; those that differ in valid counts alone are validated once."""
    known: dict[tuple[object, ...], Case] = {}
    for point in points:
        counts = {axis: value for axis in _COUNTS if type(value := point.get(axis)) is int and value > 0}
        # 1, true and 1.0 are equal, and not all of them valid.
        key = tuple([(axis, None if axis in counts else repr(value)) for axis, value in point.items()])
        case = known.get(key)
        if case is None:
            case = known[key] = _case(document, ("axes",), point, defaults, cards)
            yield case
        else:
            yield case.model_copy(update=counts)


def _check_defaults(document: Document, defaults: Point, cases: Sequence[Case]) -> None:
    """Raise ``InputError`` for a default that no case has, as all cases are of other tasks: it would have no effect."""
    tasks = sorted({case.task for case in cases})
    known = {axis for task in tasks for axis in axes_of(task)}
    for axis in defaults:
        if axis not in known:
            of = ", ".join(name for name in TASKS if axis in TASKS[name].axes.model_fields)
            raise document.error(
                ("defaults", axis),
                f"no case has this axis: it is one of {of}, and the cases are of {', '.join(tasks)}; remove it, or "
                "give it under options if the card has such an option",
            )


def _case(
    document: Document,
    key: Key,
    point: Point,
    defaults: Point | None = None,
    cards: CardCases | None = None,
) -> Case:
    """Return the case of a point, with what its card states and the defaults that its task has."""
    stated = {**(defaults or {}), **point}
    if cards is not None:
        stated = cards.defaults(stated) | stated
    task = stated["task"] if "task" in stated else task_of_model(stated.get("model"))
    axes = axes_of(task) if task in TASKS else axes_of()
    try:
        # A point with an axis of another task is a mistake, a default for other cases' tasks is not.
        return Case.model_validate(
            {axis: value for axis, value in stated.items() if axis in axes or axis in point}
        )
    except ValidationError as error:
        raise explained(document, key, error, axes) from None


def _axis(document: Document, key: Key, values: Any, one: bool = False) -> list[Any]:
    """Check the values of one axis separately, so that an error names its own line."""
    axis = str(key[-1])
    if axis not in axes_of():
        raise document.error(
            key, f"is not an axis{nearest(axis, axes_of())} (the axes: {', '.join(axes_of())})"
        )
    task = next((name for name in TASKS if axis in TASKS[name].axes.model_fields), None)
    of_task = {} if task is None else {"task": task}
    if not isinstance(values, list):
        _case(document, key[:-1], of_task | {axis: values})
        return [values]
    if not values:
        raise document.error(key, "has no values: a matrix with an empty axis has no cases")
    for i, value in enumerate(values):
        try:
            Case.model_validate(of_task | {axis: value})
        except ValidationError as error:
            place = key if one else (*key, i)
            raise explained(document, place, error, axes_of(), skip=1) from None
    return values


def _mapping(document: Document, key: Key) -> dict[str, Any]:
    values = document.values.get(key[0]) or {}
    if not isinstance(values, dict):
        raise document.error(key, "must be a mapping of axes")
    return values


def _mappings(document: Document, key: Key) -> list[dict[str, Any]]:
    values = document.values.get(key[0]) or []
    if not isinstance(values, list):
        raise document.error(key, "must be a list of mappings")
    for i, value in enumerate(values):
        if not isinstance(value, dict):
            raise document.error((*key, i), "must be a mapping of axes")
    return values


def _with_absolute_paths(suite: Suite, base: Path) -> Suite:
    """Make relative paths absolute, so that the resolved suite can be stored anywhere."""
    datasets = {name: _located(dataset, base) for name, dataset in suite.datasets.items()}
    environments = suite.environment
    return suite.model_copy(
        update={
            "datasets": datasets,
            "cards": tuple(str(base / card) for card in suite.cards),
            "environment": _interpreter(environments, base)
            if isinstance(environments, str)
            else {framework: _interpreter(word, base) for framework, word in environments.items()},
        }
    )


def _interpreter(word: str, base: Path) -> str:
    """Return an absolute path; a word without a slash is the name of an environment."""
    return str(base / Path(word).expanduser()) if os.sep in word else word


def _located(dataset: Dataset, base: Path) -> Dataset:
    path = str(base / dataset.path) if dataset.path else dataset.path
    formats = {form: str(base / folder) for form, folder in dataset.formats.items()}
    return dataset.model_copy(update={"path": path, "formats": formats})


def _check_environments(document: Document, suite: Suite) -> None:
    if isinstance(suite.environment, str):
        return
    known = list(dict.fromkeys(case.framework for case in suite.cases))
    for framework in suite.environment:
        if framework not in known:
            raise document.error(
                ("environment", framework),
                f"no case of this suite has this framework{nearest(framework, known)} "
                f"(the suite's: {', '.join(known)})",
            )


def _check_data(document: Document, suite: Suite) -> None:
    known = {SYNTHETIC, *suite.datasets}
    for case in suite.cases:
        if case.reads_data_set and case.data not in known:
            raise document.error(
                document.find("data", case.data),
                f"'{case.data}' is not a data set of this suite{nearest(case.data, known)}; add it under 'datasets'",
            )
    for name, dataset in suite.datasets.items():
        if dataset.path is None and dataset.make is None and not dataset.formats:
            raise document.error(("datasets", name), "needs a 'path', or 'make' to create it")


def _checked_datasets(document: Document, suite: Suite) -> dict[str, Dataset]:
    """Check ``make`` and ``formats`` of each data set against its task; return the data sets with defaults."""
    return {name: _checked_dataset(document, ("datasets", name), one) for name, one in suite.datasets.items()}


def _checked_dataset(document: Document, key: Key, dataset: Dataset) -> Dataset:
    named = task_of_model(None) if dataset.task is None else dataset.task
    try:
        task = find_task(named)
    except InputError as error:
        raise document.error((*key, "task"), str(error)) from None
    for form in dataset.formats:
        if form not in task.forms[1:]:
            known = ", ".join(task.forms[1:])
            raise document.error(
                (*key, "formats", form),
                f"'{form}' is not known{nearest(form, task.forms[1:])} (known: {known})",
            )
    if dataset.make is None:
        return dataset
    if task.make is None:
        raise document.error(
            (*key, "make"), f"trainmark cannot make data for the task '{task.name}'; give a 'path'"
        )
    try:
        made = task.make.model_validate(dataset.make)
    except ValidationError as error:
        raise explained(document, (*key, "make"), error, tuple(task.make.model_fields)) from None
    return dataset.model_copy(update={"make": made.model_dump(exclude_none=True)})


def _check_names(document: Document, suite: Suite) -> None:
    names: dict[str, Case] = {}
    for case in suite.cases:
        name = log_name(case, 1, suite.naming)
        if name in names:
            raise document.error(
                ("naming",),
                f"'{suite.naming.value}' gives the logs of two cases the name {name}: {names[name].id} and {case.id}; "
                "put them into two suites, or remove 'naming'",
            )
        names[name] = case


def explained(
    document: Document,
    key: Key,
    error: ValidationError,
    known: type[BaseModel] | tuple[str, ...],
    skip: int = 0,
) -> InputError:
    """Return the first of pydantic's errors as one line; ``skip`` drops the parts that ``key`` already names.

    ``known`` is the model that was read, or the names that are valid there.
    """
    details = error.errors()[0]
    # In a document the task's axes are next to the common ones.
    loc = tuple(part for part in details["loc"] if part != "task_axes")
    place = (*key, *(part for part in loc[skip:] if not _is_union_tag(part)))
    if place not in document.lines and not isinstance(known, tuple):
        # The document has the alias.
        aliases = _aliases(_owner(known, loc))
        place = next(((*place[:-1], name) for name in aliases if place[-1] in aliases[name]), place)
    return document.error(place, _sentence(details, loc, known))


def _keys(model: type[BaseModel]) -> tuple[str, ...]:
    return (*model.model_fields, *_aliases(model))


def _aliases(model: type[BaseModel]) -> Mapping[str, Sequence[str]]:
    """Return the other keys that a mapping may have, each with the fields that it sets."""
    return getattr(model, "ALIASES", {})


def _is_union_tag(part: str | int) -> bool:
    return isinstance(part, str) and (
        part in ("int", "str", "float", "bool", "constrained-int") or "[" in part
    )


def _sentence(
    details: ErrorDetails, loc: tuple[str | int, ...], known: type[BaseModel] | tuple[str, ...]
) -> str:
    given = details["input"]
    match details["type"]:
        case "extra_forbidden":
            names = known if isinstance(known, tuple) else _keys(_owner(known, loc))
            return f"is not a key here{nearest(str(loc[-1]), names)} (known: {', '.join(names)})"
        case "enum" | "literal_error":
            words = tuple(re.findall(r"'([^']+)'", details["ctx"]["expected"]))
            return f"'{given}' is not known{nearest(str(given), words)} (known: {', '.join(words)})"
        case "missing":
            return "is missing"
        case "value_error":
            return str(details["ctx"]["error"])
        case "unknown_task" | "unknown_axis":
            return details["msg"]
        case _ if loc[-1:] == ("memory",):
            return f"'{given}' is not an amount of memory; write bytes, or for example 8GiB"
        case _ if loc[-1:] == ("budget",):
            return f"'{given}' is not a time; write seconds, or for example 5min"
        case _:
            text = plain_message(details["msg"]).split(", unable to parse")[0]
            return f"{text[0].lower()}{text[1:]}, but it is {given!r}"


def _owner(model: type[BaseModel], place: Sequence[str | int]) -> type[BaseModel]:
    """Follow ``place`` into nested models; return the innermost one."""
    for part in place:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        nested = next(
            (a for a in _flat(field.annotation) if isinstance(a, type) and issubclass(a, BaseModel)), None
        )
        if nested is not None:
            model = nested
    return model


def _flat(annotation: Any) -> Iterable[Any]:
    yield annotation
    if get_origin(annotation) is not None:
        for inner in get_args(annotation):
            yield from _flat(inner)


def log_name(case: Case, repeat: int, scheme: NamingScheme) -> str:
    """Return the relative path of one run's published log; ``repeat`` counts from 1.

    The run's own folder is always ``runs/<case-id>/<repeat>``; a scheme adds the name that a community's scripts
    expect: those of the NGC PyTorch report (``pytorch_gpu8_amp_bs256.txt``), of DLPerf's log tree
    (``1n8g/r50_b128_fp32_1.log``) and of the framework-benchmark template (``clas_MobileNetV1_mp_bs64_fp32_8_speed``).

    The NGC and the template's names have no place for a repeat: theirs is added as ``_r2`` from the second
    run on, so that the first one has the documented name.
    """
    if scheme is NamingScheme.CASE:
        return f"{case.id}_{repeat}.log"
    precision = case.precision.published
    task = TASKS[case.task]
    published = task.models.get(case.model)
    match scheme:
        case NamingScheme.NGC:
            again = f"_r{repeat}" if repeat > 1 else ""
            return f"{case.framework}_gpu{case.world_size}_{precision}_bs{case.batch_per_device}{again}.txt"
        case NamingScheme.DLPERF:
            short = published.short if published else case.model
            return dlperf_name(case.topology, short, case.batch_per_device, precision, repeat)
        case NamingScheme.PADDLE:
            model = published.published if published else case.model
            return template_name(
                task.repository, model, case.world_size, case.batch_per_device, precision, repeat
            )


def dlperf_name(topology: str, model: str, batch_per_device: int | str, precision: str, repeat: int) -> str:
    """Return the name in DLPerf's tree: ``1n8g/r50_b128_fp32_1.log``."""
    return f"{topology}/{model}_b{batch_per_device}_{precision}_{repeat}.log"


def template_name(
    repository: str | None,
    model: str,
    devices: int,
    batch_per_device: int | str,
    precision: str,
    repeat: int,
) -> str:
    """Return the framework-benchmark template's name: ``clas_MobileNetV1_mp_bs64_fp32_8_speed``."""
    mode = "sp" if devices == 1 else "mp"
    words = (*filter(None, [repository]), model, mode, f"bs{batch_per_device}", precision, str(devices))
    return f"{'_'.join(words)}_speed" + (f"_r{repeat}" if repeat > 1 else "")
