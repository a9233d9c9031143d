"""Recipes with sources: the value of each axis and the place where it was read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.programs import Parameters, dialects, stated_settings
from trainmark.reference import Reference
from trainmark.schema.case import SYNTHETIC
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis

LOADING = (RecipeAxis.LOADER, RecipeAxis.WORKERS, RecipeAxis.PREFETCH)
"""The axes that affect throughput by making the device wait for data."""

FLAGS: Mapping[AxisName, str] = {
    Condition.MODEL: "--model",
    Condition.PRECISION: "--precision",
    Condition.BATCH_PER_DEVICE: "--batch",
    Condition.DEVICE: "--device",
    Condition.DEVICES: "--gpus",
    Condition.NODES: "--nodes",
}
"""The flags of ``trainmark explain`` that state what a log does not."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value and where it was read, such as ``line 3: amp : true``; ``setting`` is the program's name for it."""

    value: AxisValue
    where: str
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class StatedRecipe:
    """The known settings of a measurement; an axis that is not in ``readings`` was not stated.

    ``program`` is the training program's name (as in ``trainmark.programs.dialects``), if known.
    """

    readings: Mapping[AxisName, Reading] = field(default_factory=dict)
    program: str | None = None

    def value(self, axis: AxisName) -> AxisValue | None:
        """Return the axis' value, or None if it was not stated."""
        reading = self.readings.get(axis)
        return None if reading is None else reading.value

    def with_readings(self, more: Mapping[AxisName, Reading]) -> "StatedRecipe":
        """Return this recipe updated with ``more``."""
        return StatedRecipe({**self.readings, **more}, self.program)

    def in_use(self) -> "StatedRecipe":
        """Return this recipe without the settings of a loader that synthetic data does not use."""
        if self.value(RecipeAxis.DATA) != SYNTHETIC:
            return self
        used = {axis: reading for axis, reading in self.readings.items() if axis not in LOADING}
        return StatedRecipe(used, self.program)

    def with_options(self, options: Mapping[str, AxisValue], where: str) -> "StatedRecipe":
        """Return this recipe with a case's options, without those whose values it has as an axis already.

        A program may report its option ``schedule`` as ``optimizer.schedule``, which is the axis ``lr_schedule``: that
        is one fact. An option that had another value than the axis remains a fact of its own.
        """
        reported = {
            (reading.setting.rpartition(".")[2], reading.value)
            for reading in self.readings.values()
            if reading.setting is not None
        }
        more = {
            name: Reading(value, where)
            for name, value in options.items()
            if name in self.readings or (name, value) not in reported
        }
        return self.with_readings(more)


def recipe_from(parameters: Parameters, lines: Sequence[str] = ()) -> StatedRecipe:
    """Return the recipe in a program's printed settings, with the program that prints such settings.

    Printed defaults count as stated. Settings that are not printed do not, but for programs that print a sentence in
    the ``lines`` of their log only for what is on.
    """
    for program, dialect in dialects().items():
        if dialect.recognises(parameters):
            settings = dialect.read(parameters)
            return StatedRecipe(
                {
                    axis: Reading(value, parameter.where, parameter.name)
                    for axis, value, parameter in settings
                },
                program,
            )
    return StatedRecipe({axis: Reading(value, where) for axis, value, where in stated_settings(lines)})


def recipe_of(reference: Reference) -> StatedRecipe:
    """Return a published figure's recipe and environment, each value with the document that states it."""
    source = reference.source
    measured = f"{source.document}, {source.section}"
    recipe_source = "; ".join(source.recipe_from) or measured
    readings: dict[AxisName, Reading] = {
        axis: Reading(value, recipe_source) for axis, value in reference.recipe.items()
    }
    readings |= {condition: Reading(value, measured) for condition, value in _conditions(reference)}
    return StatedRecipe(readings)


def _conditions(reference: Reference) -> Iterator[tuple[Condition, AxisValue]]:
    hardware, software = reference.hardware, reference.software
    values: dict[Condition, AxisValue | None] = {
        Condition.FRAMEWORK: reference.framework,
        Condition.MODEL: reference.model,
        Condition.PRECISION: reference.precision,
        Condition.BATCH_PER_DEVICE: reference.batch_per_device,
        Condition.DEVICES: reference.devices,
        Condition.NODES: reference.nodes,
        Condition.DEVICE: hardware.device,
        Condition.DEVICE_MEMORY_GB: hardware.device_memory_gb,
        Condition.SYSTEM: hardware.system,
        Condition.HOST_CPU: hardware.host_cpu,
        Condition.FRAMEWORK_VERSION: software.framework_version,
        Condition.CONTAINER: software.container,
        Condition.CUDA: software.cuda,
        Condition.CUDNN: software.cudnn,
        Condition.NCCL: software.nccl,
        Condition.DRIVER: software.driver,
        Condition.OS: software.os,
    }
    yield from ((condition, value) for condition, value in values.items() if value is not None)
