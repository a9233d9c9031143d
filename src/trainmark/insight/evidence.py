"""Evidence: known effects of an axis on throughput, their sources, and how closely their conditions match a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from importlib.resources import files

from pydantic import ConfigDict, Field, PositiveFloat, model_validator

from trainmark.documents import parse_yaml
from trainmark.insight.recipe import StatedRecipe, recipe_of
from trainmark.measure.device_peaks import find_peak
from trainmark.reference import Reference, find_reference
from trainmark.schema.frozen import Frozen
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import KnownAxis, own_axes, recipe_axis, same_model


class Strength(StrEnum):
    """The kind of evidence for a factor; see ``insight/evidence/effects.yaml``."""

    ISOLATED = "isolated"
    CLAIMED = "claimed"
    BUNDLED = "bundled"
    REASONED = "reasoned"


class Nearness(IntEnum):
    """The match of an effect's conditions with the run's; ``ELSEWHERE`` says nothing about the size in the run."""

    ELSEWHERE = 0  # another device architecture, framework, model or precision
    UNKNOWN = 1  # a condition is not stated on one side
    NEAR = 2  # the same except for the number of devices
    SAME = 3


class _Entry(Frozen):
    """An entry of the evidence file; fields are accepted by their names and by their aliases."""

    model_config = ConfigDict(populate_by_name=True)


class Number(_Entry):
    """A measured number: a published figure by its name, or a value with its unit and description."""

    reference: str | None = None
    value: PositiveFloat | None = None
    unit: str | None = None
    what: str | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> "Number":
        if (self.reference is None) == (self.value is None):
            raise ValueError("a number needs either a reference's name or a value")
        return self

    @property
    def amount(self) -> float:
        """The value; raises ``InputError`` if its reference is unknown."""
        value = self.value if self.reference is None else find_reference(self.reference).value
        assert value is not None
        return value

    def text(self) -> str:
        """Return the number with its unit and source."""
        if self.reference is not None:
            figure = find_reference(self.reference)
            return f"{figure.text} ({self.reference})"
        return f"{self.value:g} {self.unit} ({self.what})"


class FactorSpan(_Entry):
    """A factor as the source gives it."""

    low: PositiveFloat
    high: PositiveFloat


class Control(_Entry):
    """The same other changes without the axis: two numbers that show their effect alone."""

    what: str
    before: Number
    after: Number


class Conditions(_Entry):
    """The conditions under which an effect was observed; null fields were not stated.

    Without a ``sequence_length`` the effect is taken not to depend on it.
    """

    framework: str | None = None
    model: str | None = None
    precision: str | None = None
    architecture: str | None = None
    devices: int | None = None
    sequence_length: int | None = None


class EvidenceSource(_Entry):
    """The publication of an effect, unless it follows from two published figures."""

    document: str
    section: str
    url: str | None = None
    date: str | None = None


class Effect(_Entry):
    """One piece of evidence: going from one value of an axis to another changed throughput by a factor.

    ``also`` names what else changed in bundled evidence; with ``also_belongs`` that is a part of the axis itself, as
    the machine around a device is.
    """

    id: str
    axis: KnownAxis
    from_value: AxisValue | None = Field(default=None, alias="from")
    to_value: AxisValue | None = Field(default=None, alias="to")
    strength: Strength
    also: str | None = None
    says: str | None = None
    conditions: Conditions = Conditions()
    before: Number | None = None
    after: Number | None = None
    factor: FactorSpan | None = None
    control: Control | None = None
    source: EvidenceSource | None = None
    hardware: str | None = None
    software: str | None = None
    note: str | None = None
    also_belongs: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> "Effect":
        measured = self.before is not None and self.after is not None
        needed = {
            Strength.ISOLATED: measured,
            Strength.BUNDLED: measured and self.also is not None,
            Strength.CLAIMED: self.factor is not None and self.source is not None,
            Strength.REASONED: self.says is not None,
        }
        if not needed[self.strength]:
            raise ValueError(f"evidence '{self.id}' lacks what '{self.strength}' needs")
        return self

    def span(self) -> tuple[float, float] | None:
        """Return the lowest and highest factor of going from ``from`` to ``to``; None if only reasoned.

        Numbers in ``s/step`` are times, so their ratio is inverted.
        """
        if self.factor is not None:
            return self.factor.low, self.factor.high
        if self.before is None or self.after is None:
            return None
        factor = _ratio(self.before, self.after)
        return factor, factor

    def axis_span(self) -> tuple[float, float] | None:
        """Return the lowest and highest factor of the axis itself; None if only reasoned.

        Bundled evidence is divided by its control, the same other changes without the axis. Without a control, the
        other changes may have brought about any part of its factor, so that of the axis is between 1 and the whole.
        """
        span = self.span()
        if span is None or self.strength is not Strength.BUNDLED or self.also_belongs:
            return span
        control = self.control_factor()
        if control is not None:
            return span[0] / control, span[1] / control
        return min(1.0, span[0]), max(1.0, span[1])

    def control_factor(self) -> float | None:
        """Return the factor of the bundled changes without the axis' change; None without a control."""
        return None if self.control is None else _ratio(self.control.before, self.control.after)


def _ratio(before: Number, after: Number) -> float:
    factor = after.amount / before.amount
    return 1 / factor if before.unit == "s/step" else factor


@dataclass(frozen=True, slots=True)
class Match:
    """An effect in the requested direction, and how closely its conditions match the run's.

    ``mismatches`` are the conditions that differ from the run's or are not stated on one side. ``inverted``: the effect
    was observed in the other direction.
    """

    effect: Effect
    nearness: Nearness
    low: float | None
    high: float | None
    mismatches: tuple[str, ...] = ()
    inverted: bool = False


@cache
def load_effects() -> tuple[Effect, ...]:
    """Return all evidence in trainmark's catalogue."""
    text = (files("trainmark.insight") / "evidence" / "effects.yaml").read_text(encoding="utf-8")
    return tuple(Effect.model_validate(entry) for entry in parse_yaml(text)["effects"])


def published_device_ratios(
    run: StatedRecipe, reference: Reference, others: Iterable[Reference]
) -> Iterator[Effect]:
    """Yield the effects of going from the run's device to the reference's, from pairs of published figures.

    Both figures of a pair have the same program, container, model, framework, precision and number of devices; other
    differences between the two machines are part of the effect. Differences of their recipes are not: such a pair is
    only a limit, for publishers fit parallel sizes and batches to a device.
    """
    here, there = run.value(Condition.DEVICE), reference.hardware.device
    if here is None or there is None or here == there:
        return
    known = [
        other
        for other in others
        if other.value is not None
        and other.framework == reference.framework
        and other.hardware.device in (here, there)
    ]
    for after in known:
        if after.hardware.device != there or not same_model(reference.model, after.model):
            continue
        for before in known:
            if before.hardware.device == here and _work(before) == _work(after):
                recipes = _recipe_differences(before, after)
                yield Effect.model_validate(
                    {
                        "id": f"device-{before.id}-{after.id}",
                        "axis": Condition.DEVICE.value,
                        "from": str(here),
                        "to": there,
                        "strength": Strength.BUNDLED,
                        "also": ", ".join(["the machine around the device, and its memory", *recipes]),
                        "also_belongs": not recipes,
                        "conditions": {
                            "framework": after.framework,
                            "model": _model_family(after.model),
                            "precision": after.precision,
                            "devices": after.devices,
                        },
                        "before": {"reference": before.id},
                        "after": {"reference": after.id},
                    }
                )


def _recipe_differences(before: Reference, after: Reference) -> list[str]:
    """Return the settings that two figures state differently, or that only one states."""
    names = sorted({*before.recipe, *after.recipe})
    pairs = ((name, before.recipe.get(name), after.recipe.get(name)) for name in names)
    return [
        f"{name} {'unknown' if one is None else one} to {'unknown' if other is None else other}"
        for name, one, other in pairs
        if one != other
    ]


_BATCH_AXES = frozenset(
    {
        RecipeAxis.MICRO_BATCH,
        RecipeAxis.GLOBAL_BATCH,
        RecipeAxis.ACCUMULATION_STEPS,
        Condition.BATCH_PER_DEVICE,
    }
)
"""Axes that publishers fit to the memory that another axis leaves."""


def published_pairs(
    axis: AxisName, run: StatedRecipe, other: StatedRecipe, figures: Iterable[Reference]
) -> Iterator[Effect]:
    """Yield the effects of an axis from pairs of figures of one page that state nothing else differently.

    A pair whose batch differs as well, or is not stated, is bundled evidence.
    """
    ends = run.value(axis), other.value(axis)
    if None in ends or axis in (Condition.MODEL, Condition.DEVICE, Condition.DEVICES):
        return
    pages: dict[tuple[object, ...], dict[AxisValue, list[tuple[Reference, dict[AxisName, AxisValue]]]]] = {}
    for figure in figures:
        recipe = {name: reading.value for name, reading in recipe_of(figure).readings.items()}
        if figure.value is not None and recipe.get(axis) in ends:
            pages.setdefault(_page(figure), {}).setdefault(recipe[axis], []).append((figure, recipe))
    for page in pages.values():
        for before, before_recipe in page.get(ends[0] or "", ()):
            for after, after_recipe in page.get(ends[1] or "", ()):
                effect = _pair(axis, before, before_recipe, after, after_recipe)
                if effect is not None:
                    yield effect


def _page(figure: Reference) -> tuple[object, ...]:
    source, software = figure.source, figure.software
    program = (software.program, software.container, software.program_commit, figure.statistic)
    return (source.document, source.section, source.publisher, source.commit, figure.unit, *program)


def _pair(
    axis: AxisName,
    before: Reference,
    before_recipe: Mapping[AxisName, AxisValue],
    after: Reference,
    after_recipe: Mapping[AxisName, AxisValue],
) -> Effect | None:
    """Return the effect that two figures show; None if they differ in more than the axis and its batch."""
    if before_recipe.keys() != after_recipe.keys() or before.id == after.id:
        return None
    differing = {name for name in before_recipe if before_recipe[name] != after_recipe[name]} - {axis}
    if differing - _BATCH_AXES:
        return None
    also = [f"{name} {before_recipe[name]} to {after_recipe[name]}" for name in sorted(differing)]
    if not _BATCH_AXES & before_recipe.keys():
        also = ["possibly the batch, which is not stated"]
    peak = find_peak(before.hardware.device) if before.hardware.device else None
    return Effect.model_validate(
        {
            "id": f"{axis}-{before.id}-{after.id}",
            "axis": str(axis),
            "from": before_recipe[axis],
            "to": after_recipe[axis],
            "strength": Strength.BUNDLED if also else Strength.ISOLATED,
            "also": ", ".join(also) or None,
            "conditions": {
                "framework": before.framework,
                "model": _model_family(before.model),
                "precision": None if axis == Condition.PRECISION else before.precision,
                "architecture": None if peak is None else peak.architecture,
                "devices": before.devices,
            },
            "before": {"reference": before.id},
            "after": {"reference": after.id},
            "hardware": before.hardware.system or before.hardware.device,
        }
    )


def _work(reference: Reference) -> tuple[object, ...]:
    software = reference.software
    return (
        reference.framework,
        reference.model,
        reference.precision,
        reference.devices,
        reference.nodes,
        software.program,
        software.container,
        *(reference.recipe.get(recipe_axis(axis)) for axis in own_axes()),
    )


def matches(
    effects: Iterable[Effect], axis: AxisName, run: StatedRecipe, reference: StatedRecipe, device: str | None
) -> tuple[Match, ...]:
    """Return the evidence for going from the run's value of ``axis`` to the reference's, the best match first.

    ``device`` is the device assumed for both. An effect observed in the other direction is inverted. Evidence from
    another framework, model, precision or architecture is included and marked.
    """
    old, new = run.value(axis), reference.value(axis)
    found = [
        match
        for effect in effects
        if effect.axis == axis and (match := _match(effect, old, new, run, device)) is not None
    ]
    order = {strength: position for position, strength in enumerate(Strength)}
    return tuple(sorted(found, key=lambda match: (-match.nearness, order[match.effect.strength])))


def _match(
    effect: Effect, old: AxisValue | None, new: AxisValue | None, run: StatedRecipe, device: str | None
) -> Match | None:
    span = effect.axis_span()
    if span is None:
        return Match(effect, Nearness.SAME, None, None)
    ends = [_family(effect.axis, value) for value in (effect.from_value, effect.to_value)]
    wanted = [_family(effect.axis, value) for value in (old, new)]
    if wanted == ends:
        low, high = span
    elif wanted == ends[::-1]:
        low, high = 1 / span[1], 1 / span[0]
    else:
        return None
    nearness, mismatches = _nearness(effect, run, device)
    return Match(effect, nearness, low, high, mismatches, inverted=wanted != ends)


def _family(axis: AxisName, value: AxisValue | None) -> AxisValue | None:
    # Sources name DALI without its back-end.
    if axis == RecipeAxis.LOADER and isinstance(value, str) and value.startswith("dali"):
        return "dali"
    # Programs have many names for attention that stores the scores of all pairs of tokens.
    if axis == RecipeAxis.ATTENTION and value in ("unfused", "dot_product", "vanilla"):
        return "eager"
    return value


def _text(value: AxisValue | None) -> str | None:
    return None if value is None else str(value)


def _nearness(effect: Effect, run: StatedRecipe, device: str | None) -> tuple[Nearness, tuple[str, ...]]:
    conditions = effect.conditions
    peak = find_peak(device) if device else None
    pairs: dict[str, tuple[str | None, object]] = {
        "framework": (conditions.framework, run.value(Condition.FRAMEWORK)),
        "model": (conditions.model, _model_family(run.value(Condition.MODEL))),
        "precision": (conditions.precision, run.value(Condition.PRECISION)),
        "architecture": (conditions.architecture, peak.architecture if peak else None),
    }
    if conditions.sequence_length is not None:
        pairs["sequence length"] = (
            str(conditions.sequence_length),
            _text(run.value(RecipeAxis.SEQUENCE_LENGTH)),
        )
    if effect.axis == Condition.PRECISION:
        del pairs["precision"]
    if effect.axis == Condition.DEVICE:
        del pairs["architecture"]
    other = [f"{name} {there}" for name, (there, here) in pairs.items() if there and here and there != here]
    if other:
        return Nearness.ELSEWHERE, tuple(other)
    open_ = [f"{name} not stated" for name, (there, here) in pairs.items() if not there or not here]
    if open_:
        return Nearness.UNKNOWN, tuple(open_)
    if conditions.devices in (None, run.value(Condition.DEVICES)):
        return Nearness.SAME, ()
    return Nearness.NEAR, (f"{conditions.devices} device{'s' if conditions.devices != 1 else ''}",)


def _model_family(model: AxisValue | None) -> str | None:
    return None if model is None else str(model).split("_v")[0]
