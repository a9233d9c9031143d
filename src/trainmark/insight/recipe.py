"""A recipe as read from somewhere: each axis with its value and the place where that value stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trainmark.programs import Parameters, dialects
from trainmark.reference import Reference
from trainmark.words.recipe import AnyAxis, AxisValue, Place


@dataclass(frozen=True, slots=True)
class Reading:
    """One value and where it was read, such as ``line 3: memory_format : nchw``."""

    value: AxisValue
    where: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is known of how something was measured; an axis that is not in ``readings`` was not stated.

    ``program`` is the training program's name (of its folder in ``programs/``), where it is known.
    """

    readings: Mapping[AnyAxis, Reading] = field(default_factory=dict)
    program: str | None = None

    def value(self, axis: AnyAxis) -> AxisValue | None:
        """Return the axis' value, or none when it was not stated."""
        reading = self.readings.get(axis)
        return None if reading is None else reading.value

    def with_readings(self, more: Mapping[AnyAxis, Reading]) -> "Recipe":
        """Return this recipe with ``more`` laid over it."""
        return Recipe({**self.readings, **more}, self.program)


def recipe_from(parameters: Parameters) -> Recipe:
    """Return the recipe that a program's printed settings say, and the program that prints such settings.

    What a program leaves at its default and prints is read like anything else; what it does not print is
    not stated.
    """
    for program, dialect in dialects().items():
        if dialect.speaks(parameters):
            said = dialect.read(parameters)
            return Recipe({axis: Reading(value, parameter.where) for axis, value, parameter in said}, program)
    return Recipe()


def recipe_of(reference: Reference) -> Recipe:
    """Return a published figure's recipe and environment, each value with the document that says it."""
    source = reference.source
    measured = f"{source.document}, {source.section}"
    recipe_source = "; ".join(source.recipe_from) or measured
    readings: dict[AnyAxis, Reading] = {
        axis: Reading(value, recipe_source) for axis, value in reference.recipe.items()
    }
    readings |= {place: Reading(value, measured) for place, value in _places(reference)}
    return Recipe(readings)


def _places(reference: Reference) -> Iterator[tuple[Place, AxisValue]]:
    hardware, software = reference.hardware, reference.software
    values: dict[Place, AxisValue | None] = {
        Place.FRAMEWORK: reference.framework,
        Place.MODEL: reference.model,
        Place.PRECISION: reference.precision,
        Place.BATCH_PER_DEVICE: reference.batch_per_device,
        Place.DEVICES: reference.devices,
        Place.NODES: reference.nodes,
        Place.DEVICE: hardware.device,
        Place.DEVICE_MEMORY_GB: hardware.device_memory_gb,
        Place.SYSTEM: hardware.system,
        Place.HOST_CPU: hardware.host_cpu,
        Place.FRAMEWORK_VERSION: software.framework_version,
        Place.CONTAINER: software.container,
        Place.CUDA: software.cuda,
        Place.CUDNN: software.cudnn,
        Place.NCCL: software.nccl,
        Place.DRIVER: software.driver,
        Place.OS: software.os,
    }
    yield from ((place, value) for place, value in values.items() if value is not None)
