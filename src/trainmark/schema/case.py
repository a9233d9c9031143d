"""A case: one point of a suite's matrix, with a value on every axis that its task has."""

import hashlib
import json
import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainmark.errors import nearest
from trainmark.schema.frozen import Count, Frozen
from trainmark.schema.precision import Precision, UnknownPrecision
from trainmark.tasks import TASKS, TaskAxes, default_model, is_neutral, own_axes, task_of_model

Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=64)]
"""A name that is safe in a path, a flag and a table: letters, digits, ``. _ + -``, at most 64 of them."""


def _where(value: Any) -> Any:
    """Read ``{gpu: A100}`` as ``gpu=A100``; several labels are joined in the order of their names."""
    if not isinstance(value, Mapping):
        return value
    return ",".join(f"{name}={word}" for name, word in sorted(value.items()))


Where = Annotated[
    Annotated[str, StringConstraints(pattern=r"^([\w-]+=[\w.-]+(,[\w-]+=[\w.-]+)*)?$", max_length=128)],
    BeforeValidator(_where),
]
"""Labels that hosts must have (``gpu=A100,rack=2``); if empty, any host may be used."""

Option = bool | int | float | str

_LONGEST_OPTION = 32

BUILT_IN = "trainmark"
"""The workload that is trainmark's own training program."""

MAX_BATCH: Literal["max"] = "max"
"""The batch value for the largest batch that fits into the device's memory."""

BEST: Literal["best"] = "best"
"""The value of the compiler, the loader or a variant axis that requests the fastest one."""

SYNTHETIC = "synthetic"
"""The value of ``data`` for samples that the program generates."""


UNKNOWN: Literal["unknown"] = "unknown"
"""The value of an axis that was not stated, in a case of the neutral task."""

UNSTATED = ("framework", "model", "precision", "batch_per_device", "data", "loader", "compiler")
"""The axes that are unknown in a case of the neutral task unless its suite states them."""

UNKNOWN_TASK: Literal["unknown_task"] = "unknown_task"
UNKNOWN_AXIS: Literal["unknown_axis"] = "unknown_axis"
"""Error types for an unknown task or an unknown axis of a case; their message is one sentence."""


class Device(StrEnum):
    """The device of a rank; ``auto`` takes a GPU if there is one."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


@cache
def axes_of(*tasks: str) -> tuple[str, ...]:
    """Return the names of the axes of these tasks' cases, in order; those of all tasks without arguments."""
    fields = (own_axes(*tasks) if name == "task_axes" else (name,) for name in Case.model_fields)
    return tuple(axis for axes in fields for axis in axes)


class Case(Frozen):
    """One point of a suite's matrix: what is trained, how, and on how many devices.

    ``batch_per_device`` counts the task's samples; ``data`` is ``synthetic`` or the name of one of the suite's data
    sets; ``options`` go to the workload's program by the names that its card declares. ``task_axes`` are the axes
    that only the ``task`` has; in a document they are next to the others. ``where`` has labels of the hosts that the
    case may run on; a document omits it if it is empty.
    """

    workload: Word = BUILT_IN
    framework: Word = "pytorch"
    model: Word
    task: Word
    precision: Annotated[Precision | UnknownPrecision, Field(union_mode="left_to_right")] = Precision.FP32
    batch_per_device: Count | Literal["max", "unknown"] = 32
    nodes: Count = 1
    devices_per_node: Count = 1
    data: Word = SYNTHETIC
    loader: Word = "native"
    task_axes: SerializeAsAny[TaskAxes]
    compiler: Word = "none"
    device: Device = Device.AUTO
    options: Mapping[Word, Option] = Field(default_factory=dict)
    where: Where = ""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, point: Any) -> Any:
        """Collect the task's axes into ``task_axes``; fill in a missing task or model."""
        if not isinstance(point, Mapping) or "task_axes" in point:
            return point
        # Pydantic's model_fields is a property that takes longer than all the rest.
        fields = cls.__pydantic_fields__
        common: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for name, value in point.items():
            (common if name in fields else own)[name] = value
        if is_neutral(point.get("task")):
            return dict.fromkeys(UNSTATED, UNKNOWN) | common | {"task_axes": own}
        if "model" not in point and (model := default_model(point.get("task"))) is not None:
            common["model"] = model
        if common.get("loader") == BEST and common.get("data", SYNTHETIC) == SYNTHETIC:
            # Synthetic data has no loader to choose.
            del common["loader"]
        return {"task": task_of_model(common.get("model"))} | common | {"task_axes": own}

    @field_validator("task")
    @classmethod
    def _is_known(cls, task: str) -> str:
        if task not in TASKS:
            raise PydanticCustomError(
                UNKNOWN_TASK, "{problem}", {"problem": f"unknown task '{task}'{_choices(task, tuple(TASKS))}"}
            )
        return task

    @field_validator("task_axes", mode="wrap")
    @classmethod
    def _typed(cls, axes: Any, _handler: Any, info: ValidationInfo) -> TaskAxes:
        """Read the axes with the type of the case's task; the check of ``task`` reports an unknown task."""
        task = TASKS.get(info.data.get("task", ""))
        if task is None:
            return TaskAxes()
        if not isinstance(axes, Mapping):
            return task.axes.model_validate(axes)
        if unknown := [axis for axis in axes if axis not in task.axes.__pydantic_fields__]:
            raise ValidationError.from_exception_data(
                cls.__name__, [_unknown_axis(axis, axes[axis], task.name) for axis in unknown]
            )
        model = task.models.get(info.data.get("model", ""))
        return task.axes.model_validate({**(model.axes if model else {}), **axes})

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        point: dict[str, Any] = {}
        for name, value in handler(self).items():
            if name == "where" and not value:
                continue
            point |= value if name == "task_axes" else {name: value}
        return point

    @model_validator(mode="after")
    def _states_what_its_task_needs(self) -> Self:
        unstated = [axis for axis in ("precision", "batch_per_device") if self.value(axis) == UNKNOWN]
        if unstated and not is_neutral(self.task):
            raise ValueError(
                f"{unstated[0]} '{UNKNOWN}' is only for a program of another project (task: program)"
            )
        return self

    @model_validator(mode="after")
    def _searches_one_thing(self) -> Self:
        if self.batch_per_device == MAX_BATCH and self.left_open:
            raise ValueError(
                f"{self.left_open[0]} 'best' cannot be combined with batch_per_device 'max': "
                "give a value for one of them, because each is searched at a known value of the other"
            )
        return self

    @property
    def fixed_axes(self) -> dict[str, str]:
        """The case's values on the axes that change what its step computes, such as the optimizer."""
        return {axis: str(self.value(axis)) for axis in TASKS[self.task].fixed_axes}

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes of this case, in the order in which ids and tables use them."""
        return axes_of(self.task)

    def value(self, axis: str) -> Any:
        """Return the case's value on an axis, common or of its task; raise ``AttributeError`` for an unknown axis."""
        # Pydantic's model_fields is a property that takes longer than all the rest.
        own = self.__dict__
        return own[axis] if axis in own else getattr(self.task_axes, axis)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The text of the case's value on each axis, as cards write it."""
        values = {**self.task_axes.__dict__, **self.__dict__}
        found: dict[str, str] = {}
        for axis in self.axes:
            value = values[axis]
            kind = type(value)
            # Most values need no call: ten thousand cases have 160,000.
            found[axis] = value if kind is str else str(value) if kind is int else value_text(value)
        return found

    def varied(self, **changes: Any) -> Self:
        """Return this case with other values on some axes, common or of its task; the result is validated."""
        return self.model_validate({axis: self.value(axis) for axis in self.axes} | changes)

    @property
    def reads_data_set(self) -> bool:
        """True if the case names one of the suite's data sets."""
        return self.data not in (SYNTHETIC, UNKNOWN)

    @property
    def left_open(self) -> tuple[str, ...]:
        """The axes on which the case requests the best value, which short runs find."""
        # Ten thousand cases seldom leave anything open.
        if BEST not in self.texts.values():
            return ()
        return tuple(axis for axis in _open_axes(type(self.task_axes)) if self.value(axis) == BEST)

    @property
    def world_size(self) -> int:
        """The number of ranks, one per device."""
        return self.nodes * self.devices_per_node

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that its hosts must have."""
        pairs = (word.partition("=") for word in self.where.split(",") if word)
        return {name: value for name, _, value in pairs}

    @property
    def topology(self) -> str:
        """Nodes and devices per node: ``4n8g``."""
        return f"{self.nodes}n{self.devices_per_node}g"

    @cached_property
    def id(self) -> str:
        """The case's name in paths and tables: every axis in a fixed order, so that equal cases have equal ids.

        Omitted are the loader of synthetic data, the built-in workload, the device ``auto``, a task that follows from
        the model, and an empty ``where``. Options add 16 digits of their digest; among a million cases, two have equal
        digits with a probability of 3e-8. The id of a
        case of the neutral task has only what is known, and its options by name and value.
        """
        return self._neutral_name() if is_neutral(self.task) else self._name(digits=16)

    @property
    def earlier_id(self) -> str:
        """The id that versions before 0.2 gave this case, with 6 digits of the options' digest."""
        return self._name(digits=6)

    def _neutral_name(self) -> str:
        stated = {axis: self.value(axis) for axis in UNSTATED if self.value(axis) != UNKNOWN}
        words = [
            self.workload,
            *(f"b{value}" if axis == "batch_per_device" else str(value) for axis, value in stated.items()),
            *(_option_word(name, value) for name, value in self.options.items()),
            *([self.topology] if self.world_size > 1 else []),
            *([self.device.value] if self.device is not Device.AUTO else []),
            *([f"on.{self.where}".replace("=", ".").replace(",", "+")] if self.where else []),
        ]
        return "-".join(words)

    def _name(self, digits: int) -> str:
        words = [
            *([self.workload] if self.workload != BUILT_IN else []),
            self.framework,
            *([self.task] if self.task != task_of_model(self.model) else []),
            self.model,
            self.precision.value,
            f"b{self.batch_per_device}",
            self.topology,
            self.data if not self.reads_data_set else f"{self.data}-{self.loader}",
            *self.task_axes.id_words(self.compiler),
            *([self.device.value] if self.device is not Device.AUTO else []),
            *([f"o{_digest(self.options)[:digits]}"] if self.options else []),
            *([f"on.{self.where}".replace("=", ".").replace(",", "+")] if self.where else []),
        ]
        return "-".join(words)

    def at_batch(self, batch_per_device: int) -> "Case":
        """Return this case with another batch per device (how ``max`` becomes a number)."""
        return self.model_copy(update={"batch_per_device": batch_per_device})


def case_of(**axes: Any) -> Case:
    """Return the case with these values, and the defaults of its task on all other axes.

    Raises pydantic's ``ValidationError`` for an axis that the task lacks and for a value that the axis cannot have.
    """
    return Case.model_validate(axes)


def value_text(value: Any) -> str:
    """Return the text of an axis's or an option's value, as a card and a command write it."""
    if type(value) is str:
        return value
    if isinstance(value, Enum):
        # Enum.value is a property that takes longer than all the rest.
        return str(value._value_)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@cache
def _open_axes(axes: type[TaskAxes]) -> tuple[str, ...]:
    """Return the axes whose value may be ``best``, in the cases of the task with these axes."""
    return ("compiler", *axes.model_fields, "loader")


def _unknown_axis(axis: object, value: Any, task: str) -> InitErrorDetails:
    problem = f"task '{task}' has no axis '{axis}'{_choices(str(axis), axes_of(task))}"
    return InitErrorDetails(
        type=PydanticCustomError(UNKNOWN_AXIS, "{problem}", {"problem": problem}),
        loc=(str(axis),),
        input=value,
    )


def _choices(word: str, known: tuple[str, ...]) -> str:
    return f"{nearest(word, known)} (known: {', '.join(known)})"


def _option_word(name: str, value: Option) -> str:
    """Return an option as a word of a path: ``batch64``; a value that is no such word is followed by its digest."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    word = re.sub(r"[^A-Za-z0-9._+-]+", "_", text)[:_LONGEST_OPTION]
    return f"{name}{word}" if word == text and text else f"{name}{word}.{_digest({name: value})[:6]}"


def _digest(options: Mapping[str, Option]) -> str:
    canonical: Any = json.dumps(dict(options), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
