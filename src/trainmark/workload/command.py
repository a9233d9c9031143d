"""The command line of a program, from a case and a card."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError, nearest
from trainmark.schema.case import SYNTHETIC, UNKNOWN, UNSTATED, Case, Device, Option, case_of, value_text
from trainmark.schema.names import EVENTS
from trainmark.schema.suite import Launcher
from trainmark.tasks import is_neutral
from trainmark.workload.card import (
    Card,
    Combination,
    Counts,
    NoNumberError,
    Template,
    TypedOption,
    computed,
    expressions_in,
    filled,
    filled_template,
    numbers_of,
    placeholders_in,
    template,
    whole,
    with_numbers,
)
from trainmark.workload.cards import Workload
from trainmark.workload.source import GitSource, is_commit

COMMIT = "commit"
"""The option of a case for the commit of a program from a repository."""

PARTS = "accumulation"
"""The axis for splitting a device's batch into parts, of the tasks that support it."""

_OF_BATCH = frozenset({"batch", "node_batch", "global_batch", "micro_batch", "samples", "learning_rate"})
"""The placeholders that are computed from the batch."""

_NAME_OF_BATCH = {
    Counts.PER_DEVICE: "batch",
    Counts.PER_NODE: "node_batch",
    Counts.GLOBAL: "global_batch",
}
"""The placeholder of the batch, as a program counts it."""

_BATCH = "batch_per_device"
_NOT_FLAGS = ("workload", "framework", "task", "options", "where")


class UnsupportedByCard(Exception):  # noqa: N818 - it becomes the outcome "unsupported", with this reason
    """An error for a case that the program cannot run; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a card's placeholders that all runs of a program on a node share, besides the case's axes.

    ``dataset`` is the folder of the whole data set. ``hosts`` are the nodes' addresses; the rendezvous is at ``port``
    of the first one. The command is for ``node``. ``device`` is the device that a rank uses, if known.
    """

    steps: int
    warmup_steps: int
    threads: int
    loader_workers: int
    seed: int
    data: str
    dataset: str = SYNTHETIC
    prepared: Path = Path()
    compile_cache: Path = Path()
    python: str = "python"
    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 0
    node: int = 0
    device: Device | None = None

    def texts(self, case: Case) -> dict[str, str]:
        """Return the text of each placeholder that depends on no more of a case than program, nodes and devices."""
        per_node = case.devices_per_node
        return {
            "steps": str(self.steps),
            "warmup_steps": str(self.warmup_steps),
            "threads": str(self.threads),
            "loader_workers": str(self.loader_workers),
            "seed": str(self.seed),
            "data": self.data,
            "dataset": self.dataset,
            "prepared": str(self.prepared),
            "compile_cache": str(self.compile_cache),
            "python": self.python,
            "port": str(self.port),
            "node": str(self.node),
            "framework": case.framework,
            "task": case.task,
            "world_size": str(case.world_size),
            "nodes": str(case.nodes),
            "devices_per_node": str(per_node),
            "devices": ",".join(map(str, range(per_node))),
            "node_loader_workers": str(self.loader_workers * per_node),
            "hosts": ",".join(self.hosts),
            "master": self.hosts[0],
        }


class Program:
    """A card's program on one node; what the runs of several cases share is filled into its words once.

    The cases differ neither in their program nor in their nodes and devices.
    """

    def __init__(self, case: Case, workload: Workload, values: Values) -> None:
        self._workload, self._values = workload, values
        card = workload.card
        self._shared = values.texts(case)
        if workload.source.is_absolute():
            self._shared["source"] = str(workload.source)
        # Expressions are computed first, and the value of an option can be several words.
        self._as_written = card.is_computed or bool(card.named_options)
        command = () if self._as_written else card.command
        self._command = tuple(template(word, self._shared) for word in command)
        # An option may have the name of a placeholder, and then takes its place.
        known = {} if card.named_options else self._shared
        self._variables = {name: template(text, known) for name, text in card.environment_variables.items()}
        self._of_value: dict[tuple[str, str], tuple[Template, ...]] = {}
        self._around_batch: dict[tuple[str, ...], tuple[list[Template], list[Template]]] = {}
        """The words before and after those of the batch, by the texts of the other axes."""

    def texts(self, case: Case, folder: Path) -> dict[str, str]:
        """Return the text of each placeholder in a run that has ``folder`` on the node."""
        known = {**self._shared, "events": f"{folder}/{EVENTS}", "run": str(folder)}
        if "source" not in known:
            # Each run has its own working tree of a repository.
            known["source"] = str(folder / self._workload.source)
        # The batch "max" is replaced by a number before placement.
        batch = case.batch_per_device
        if isinstance(batch, int):
            known |= _batches(batch, case, self._workload.card, self._values.steps)
        return known

    def words(self, case: Case, texts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words that follow the interpreter (or the launcher) in the command of one rank.

        ``texts`` are the placeholders of the run. Raises ``UnsupportedByCard`` when the card lacks an axis, a value or
        an option that the case uses.
        """
        card = self._workload.card
        batch, parts = case.batch_per_device, _parts(case)
        if isinstance(batch, int) and batch % parts and any("{micro_batch}" in word for word in card.command):
            raise UnsupportedByCard(f"a batch of {batch} does not divide into {parts} equal parts ({PARTS})")
        options = card.option_values(case)
        chosen = _named_in_command(card, options)
        _require_batch(case, card, chosen)
        words: list[Template] = [*self._command]
        if self._as_written:
            words += _command_words(case, card, texts, chosen)
        words += self._words_of_axes(case)
        for combination in self._fitting(case):
            words += [filled(word, texts) for word in combination.words]
        for option, value in options.items():
            if option not in chosen and not (option == COMMIT and isinstance(card.source, GitSource)):
                words += _option_words(case, card, option, value, texts)
        work_of_step(case, card)
        return tuple([word if type(word) is str else filled_template(word, texts) for word in words])

    def variables(self, case: Case, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that the card gives the program; ``texts`` are the placeholders of the run."""
        card, given = self._workload.card, self._variables
        if not given and not card.combinations:
            return {}
        for combination in self._fitting(case):
            given = given | {
                name: template(text, {}) for name, text in combination.environment_variables.items()
            }
        if chosen := _named_in_command(card, card.option_values(case)):
            texts = {**texts, **chosen}
        return {name: filled_template(text, texts) for name, text in given.items()}

    def _fitting(self, case: Case) -> Iterator[Combination]:
        """Yield the combinations of the card whose values the case has."""
        combinations = self._workload.card.combinations
        if combinations:
            on_axes = axis_texts(case, self._values.device)
            yield from (one for one in combinations if all_match(on_axes, one.when))

    def _words_of_axes(self, case: Case) -> Sequence[Template]:
        """Return the words for the values of a case on the axes; cases that differ in their batch alone share most."""
        texts = case.texts
        place, values = list(texts).index(_BATCH), list(texts.values())
        batch = values.pop(place)
        shared = self._around_batch.get(key := tuple(values))
        if shared is None:
            axes = [*texts.items()]
            before = self._words_of(case, axes[:place])
            of_batch = self._words_of(case, [(_BATCH, batch)])
            shared = self._around_batch[key] = before, self._words_of(case, axes[place + 1 :])
        else:
            of_batch = self._words_of(case, [(_BATCH, batch)])
        return (*shared[0], *of_batch, *shared[1])

    def _words_of(self, case: Case, axes: Sequence[tuple[str, str]]) -> list[Template]:
        words: list[Template] = []
        for axis, text in axes:
            if axis not in _NOT_FLAGS:
                # Ten thousand cases have few values on each axis.
                found = self._of_value.get((axis, text))
                words += self._words_of_value(case, axis, text) if found is None else found
        return words

    def _words_of_value(self, case: Case, axis: str, text: str) -> tuple[Template, ...]:
        """Return the words for a value on an axis, and keep them for the next case that has it."""
        card = self._workload.card
        words = _unfilled_axis_words(case, axis, text, card)
        if axis == _BATCH:
            # The card says which count of it the program takes.
            counts = card.axes[axis].counts if words else Counts.PER_DEVICE
            name = _NAME_OF_BATCH[counts]
            found = tuple(template(word, self._shared, name) for word in words)
        else:
            # A program reads its data from a folder.
            value = self._shared["data"] if axis == "data" else text
            found = tuple(template(word, {**self._shared, "value": value}) for word in words)
        self._of_value[axis, text] = found
        return found


def _batches(batch: int, case: Case, card: Card, steps: int) -> dict[str, str]:
    total = batch * case.world_size
    known = {"batch": batch, "node_batch": batch * case.devices_per_node, "global_batch": total}
    known["micro_batch"] = batch // _parts(case)
    texts = {name: str(number) for name, number in known.items()} | {"samples": str(steps * total)}
    if card.scaling is not None:
        texts["learning_rate"] = f"{card.scaling.learning_rate * total / card.scaling.batch:.6g}"
    return texts


def _parts(case: Case) -> int:
    """Return the number of parts of a device's batch; 1 if the task does not split it."""
    return case.value(PARTS) if PARTS in case.axes else 1


def _command_words(case: Case, card: Card, known: Mapping[str, str], chosen: Mapping[str, str]) -> list[str]:
    """Return the words of the card's command; ``chosen`` are the options that it names."""
    command: Sequence[str] = card.command
    if card.is_computed:
        command = [_with_numbers(word, case, card, known) for word in command]
    if not chosen:
        return [filled(word, known) for word in command]
    return [text for word in command for text in _filled_words(word, known, chosen)]


def _option_words(case: Case, card: Card, option: str, value: Option, known: Mapping[str, str]) -> list[str]:
    """Return the words for the value of an option; raise ``UnsupportedByCard`` for one that the card does not have."""
    if option not in card.options:
        raise UnsupportedByCard(
            f"workload '{card.name}' has no option '{option}'{nearest(option, card.options)}"
        )
    text = value_text(value)
    flags = card.options[option]
    if isinstance(flags, TypedOption):
        if not flags.type.accepts(value):
            raise UnsupportedByCard(
                f"workload '{card.name}': the option {option} is {value!r}, which is not a valid {flags.type}"
            )
        flags = flags.flags
    if isinstance(flags, Mapping):
        if text not in flags:
            choices = ", ".join(flags)
            raise UnsupportedByCard(
                f"workload '{card.name}' has no {option} '{text}'{nearest(text, flags)} (it has: {choices})"
            )
        flags = flags[text]
    return [filled(_with_numbers(word, case, card, known), known, text) for word in flags]


def work_of_step(case: Case, card: Card) -> int | None:
    """Return the units of a step of all devices that the card states for a case; None if it states none.

    Raises ``UnsupportedByCard`` for an expression that has no whole number as its value.
    """
    work = card.work_per_step
    if not isinstance(work, str):
        return work
    texts = {name: str(getattr(case, name)) for name in ("world_size", "nodes", "devices_per_node")}
    if isinstance(batch := case.batch_per_device, int):
        texts |= _batches(batch, case, card, 0)
    try:
        return whole(work, computed(work, numbers_of(case, texts, card.option_values(case))))
    except (NoNumberError, InputError) as error:
        raise UnsupportedByCard(f"workload '{card.name}': work_per_step: {error}") from None


def _with_numbers(word: str, case: Case, card: Card, texts: Mapping[str, str]) -> str:
    if not expressions_in(word):
        return word
    try:
        return with_numbers(word, numbers_of(case, texts, card.option_values(case)))
    except NoNumberError as error:
        raise UnsupportedByCard(f"workload '{card.name}': the word '{word}': {error}") from None


def _require_batch(case: Case, card: Card, chosen: Mapping[str, str]) -> None:
    if case.batch_per_device != UNKNOWN or card.launcher is Launcher.COMMAND:
        return
    used = (name for word in card.command for name in placeholders_in(word) if name not in chosen)
    if name := next((name for name in used if name in _OF_BATCH), None):
        raise UnsupportedByCard(
            f"the command of workload '{card.name}' has {{{name}}}: state batch_per_device in the suite"
        )


def _filled_words(word: str, known: Mapping[str, str], chosen: Mapping[str, str]) -> list[str]:
    """Return a word of the command with its placeholders replaced; the value of an option that is alone in its word is
    split as a shell would, so that it can be several words, or none."""
    if (alone := word.removeprefix("{").removesuffix("}")) in chosen and word == f"{{{alone}}}":
        return shlex.split(chosen[alone])
    return [filled(word, {**known, **chosen})]


def _named_in_command(card: Card, options: Mapping[str, Option]) -> dict[str, str]:
    """Return the text of each option whose placeholder stands in the command or in a variable."""
    return {name: value_text(options[name]) for name in card.named_options if name in options}


def commit_of(case: Case, card: Card) -> str | None:
    """Return the commit of the case's program; None for a program that is not from a repository.

    Raises ``UnsupportedByCard`` if neither the card nor the case names one, or the case's one is not a full hash.
    """
    if not isinstance(card.source, GitSource):
        return None
    commit = case.options.get(COMMIT, card.source.commit)
    way_out = f"give the case options: {{{COMMIT}: 40 hexadecimal digits}}"
    if commit is None:
        raise UnsupportedByCard(
            f"workload '{card.name}' does not say which commit of {card.source.url}; {way_out}"
        )
    if not is_commit(str(commit)):
        raise UnsupportedByCard(f"workload '{card.name}': '{commit}' is not a whole commit; {way_out}")
    return str(commit)


def matches(case: Case, when: Mapping[str, str], device: Device | None = None) -> bool:
    """Return whether a case has all the values of ``when``; ``!value`` means any other.

    ``device`` is the device that a rank really uses, if known.
    """

    return all_match(axis_texts(case, device), when)


def axis_texts(case: Case, device: Device | None = None) -> Mapping[str, str]:
    """Return the text of a case's value on each axis; ``device`` is the one that a rank really uses, if known."""
    return case.texts if device is None else {**case.texts, "device": device.value}


def all_match(texts: Mapping[str, str], when: Mapping[str, str]) -> bool:
    """Return whether the ``texts`` of a case's axes have all the values of ``when``; ``!value`` means any other."""
    for axis, wanted in when.items():
        text = texts.get(axis)
        if text is None or (text == wanted[1:] if wanted.startswith("!") else text != wanted):
            return False
    return True


def find_gap(case: Case, card: Card, device: Device) -> str | None:
    """Return why the program cannot do this combination of axes on ``device``, or None."""
    if not card.gaps:
        return None
    texts = case.texts
    # Ten thousand cases differ little on the axes that gaps name.
    key = (device, *[texts.get(axis) for axis in card.axes_of_gaps])
    if key not in card.gap_by_texts:
        texts = axis_texts(case, device)
        found = (gap.reason for gap in card.gaps if all_match(texts, gap.when))
        card.gap_by_texts[key] = next(found, None)
    return card.gap_by_texts[key]


def _unfilled_axis_words(case: Case, axis: str, text: str, card: Card) -> Sequence[str]:
    """Return the words for a value on an axis with their placeholders."""
    rule = card.axes.get(axis)
    if text == UNKNOWN and axis in UNSTATED and is_neutral(case.task):
        # The program decides: the suite states no value.
        return []
    if rule is None and axis == "device" and axis not in card.fixed:
        return []
    if rule is None:
        if axis in UNSTATED and axis not in card.fixed and is_neutral(case.task):
            raise UnsupportedByCard(
                f"workload '{card.name}' has no words for {axis}, so it cannot be {text}: add {axis} to the card's "
                "'axes', or its only value to 'fixed'"
            )
        only = value_text(card.fixed.get(axis, case_of(task=case.task).value(axis)))
        if text != only:
            raise UnsupportedByCard(f"workload '{card.name}' can only do {axis} {only}, not {text}")
        return []
    if (choices := rule.choices) is not None and text not in choices:
        raise UnsupportedByCard(
            f"workload '{card.name}' ({card.framework}) has no {axis} '{text}'"
            f"{nearest(text, choices)} (it has: {', '.join(choices)})"
        )
    return rule.flags if rule.values is None else rule.values[text]
