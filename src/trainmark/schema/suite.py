"""A suite and its protocol: what to measure, how often, and within which limits, as resolved."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

from trainmark.errors import nearest
from trainmark.schema.case import Case, Word
from trainmark.schema.frozen import Count, Frozen
from trainmark.schema.measurement import GateName, Sampling

_PRESETS: dict[str, dict[str, Any]] = {
    # DLPerf's rule: 5 runs of 120 steps, the first 20 dropped.
    "dlperf": {
        "steps": 120,
        "warmup_steps": 20,
        "min_repeats": 5,
        "max_repeats": 5,
        "target_half_width": None,
        "max_case_s": None,
    },
    "adaptive": {
        "steps": 120,
        "warmup_steps": 20,
        "min_repeats": 3,
        "max_repeats": 10,
        "target_half_width": 0.01,
        "max_case_s": 3600.0,
    },
}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kMGT]i?)?B?\s*$")
_UNITS = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)\s*")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
EACH_ITS_OWN = "auto"
"""The value that gives each framework its own environment."""
_ONE, _EACH = "str", "dict[str,str]"


class Launcher(StrEnum):
    """The program that starts the ranks; a single rank is always started directly.

    - ``process``: no launcher, because there is only one process.
    - ``torchrun``: PyTorch's launcher.
    - ``ranks``: one process per rank, which reads its rank from the variables that torchrun would set, like the
      built-in workers.
    - ``multiproc``: the program's own launcher script (the card's ``starter``) with the flags of NVIDIA's
      ``multiproc.py``.
    - ``mpirun``: OpenMPI from the first node, for Horovod over MPI.
    - ``paddle``: ``paddle.distributed.launch``.
    - ``spawn``: one process per node, which sees all devices of the node and uses them or starts their ranks itself.
    - ``command``: the card's command is the whole command line, interpreter or launcher included, and starts the ranks
      of its node itself.
    """

    PROCESS = "process"
    TORCHRUN = "torchrun"
    RANKS = "ranks"
    MULTIPROC = "multiproc"
    MPIRUN = "mpirun"
    PADDLE = "paddle"
    SPAWN = "spawn"
    COMMAND = "command"

    @property
    def needs_starter(self) -> bool:
        """True if a card with this launcher must name the script that starts the ranks."""
        return self is Launcher.MULTIPROC


class NamingScheme(StrEnum):
    """The naming scheme of published log files."""

    CASE = "case"
    NGC = "ngc"
    DLPERF = "dlperf"
    PADDLE = "paddle"


class ProtocolName(StrEnum):
    """The protocols that exist; a suite may change the numbers of each."""

    ADAPTIVE = "adaptive"
    DLPERF = "dlperf"


def _known_name(value: Any) -> Any:
    if (name := str(value)) in _PRESETS:
        return value
    raise ValueError(
        f"'{name}' is not known{nearest(name, _PRESETS)} (known: {', '.join(ProtocolName)}); "
        "for a fixed number of runs write 'repeats: 5', with any of them"
    )


class Protocol(Frozen):
    """The protocol by which a case is measured.

    A run has ``steps`` steps, of which the first ``warmup_steps`` are not measured. A case is run at least
    ``min_repeats`` and at most ``max_repeats`` times (``repeats`` sets both). With ``target_half_width`` set, runs are
    added until half the width of the 95 % interval is at most that fraction of the median, or the case has taken
    ``max_case_s`` seconds. The cases of each pass come in a random order that ``order_seed`` fixes, so that what one
    leaves behind (heat) does not always affect the same next case; null keeps the suite's order.
    """

    ALIASES: ClassVar = {"repeats": ("min_repeats", "max_repeats")}

    name: Annotated[ProtocolName, BeforeValidator(_known_name)]
    steps: Count
    warmup_steps: Annotated[int, Field(strict=True, ge=0)]
    min_repeats: Count
    max_repeats: Count
    target_half_width: Annotated[float, Field(gt=0, lt=1)] | None
    max_case_s: PositiveFloat | None
    order_seed: Annotated[int, Field(strict=True, ge=0)] | None = 1

    @property
    def sampling(self) -> Sampling:
        """The rule for the number of a case's runs: fixed, or until the interval is narrow."""
        waits = self.target_half_width is not None and self.min_repeats < self.max_repeats
        return Sampling.WAITED if waits else Sampling.FIXED

    @property
    def measured_steps(self) -> int:
        """The number of steps in the measured window."""
        return self.steps - self.warmup_steps

    @property
    def stated_warmup_steps(self) -> int | None:
        """The warm-up steps that a suite states; None if they are the protocol's usual ones."""
        return None if self.warmup_steps == _PRESETS[self.name]["warmup_steps"] else self.warmup_steps

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        """Accept a bare name as a protocol, and ``repeats`` for both limits."""
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict):
            return value
        given = {"name": ProtocolName.ADAPTIVE} | value
        if "repeats" in given:
            given = dict.fromkeys(cls.ALIASES["repeats"], given.pop("repeats")) | given
        return _PRESETS.get(str(given["name"]), {}) | given

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.warmup_steps < 1:
            raise ValueError("warmup_steps must be at least 1: the first step is never part of the window")
        if self.steps <= self.warmup_steps:
            raise ValueError(
                f"steps ({self.steps}) must be more than warmup_steps ({self.warmup_steps}): "
                "nothing would be left to measure"
            )
        if self.max_repeats < self.min_repeats:
            raise ValueError(
                f"max_repeats ({self.max_repeats}) is less than min_repeats ({self.min_repeats})"
            )
        return self


_UNITS |= {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("kMGT", start=1)}


def _bytes(value: Any) -> Any:
    """Read ``8 GiB`` and its like as bytes; anything else is left to the type check."""
    if isinstance(value, str) and (match := _SIZE.match(value)):
        return int(float(match[1]) * _UNITS[match[2]])
    return value


def _seconds(value: Any) -> Any:
    """Read ``5min``, ``90 s`` or ``1h 30min`` as seconds; leave anything else to the type check."""
    if isinstance(value, str) and re.fullmatch(rf"(?:{_DURATION.pattern})+", value):
        return float(sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value)))
    return value


class Limits(Frozen):
    """The limits of one run: seconds in total, seconds without output, bytes of host memory."""

    timeout_s: PositiveFloat = 3600.0
    stall_timeout_s: PositiveFloat = 900.0
    memory: Annotated[PositiveInt | None, BeforeValidator(_bytes)] = None


class Dataset(Frozen):
    """The path of a data set (relative to the suite's file), and how to make it if it is missing.

    ``task`` is the task of the data (None: the default task); it determines the values of ``make`` and the possible
    ``formats``. ``path`` is the folder of the first form; ``formats`` are the folders of the same samples in other
    forms. A missing form that a program needs is converted from the first one if possible.
    """

    task: Word | None = None
    path: str | None = None
    make: Mapping[Word, int] | None = None
    formats: Mapping[Word, str] = Field(default_factory=dict)


def _how_given(value: Any) -> str:
    return _EACH if isinstance(value, Mapping) else _ONE


Environments = Annotated[
    Annotated[str, Tag(_ONE)] | Annotated[Mapping[Word, str], Tag(_EACH)], Discriminator(_how_given)
]
"""One environment for every case, or one for each framework."""


class Gates(Frozen):
    """The gates that are turned off, by name (docs/reference/gates.md)."""

    off: tuple[GateName, ...] = ()


class ProfileMode(StrEnum):
    """A suite's choice of the profiled run that each case gets in addition to its measured ones."""

    OFF = "off"
    REDUCED = "reduced"
    """Profile, and store seconds by kind of operation."""
    TRACE = "trace"
    """Store the profiler's trace files too."""


_RATE = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*(\S+/s)\s*")


def parse_rate(text: str) -> tuple[float, str]:
    """Return the number and the unit of a rate such as ``21000 samples/s``; raise ``ValueError`` for anything else."""
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]):
        raise ValueError("must be a rate above 0 with its unit, such as '21000 samples/s'")
    return float(match[1]), match[2]


def _rate(value: Any) -> Any:
    if isinstance(value, str):
        parse_rate(value)
    elif value is not None:
        raise ValueError("must have its unit, such as '21000 samples/s'")
    return value


Rate = Annotated[str, BeforeValidator(_rate)]
"""A rate with its unit, such as ``21000 samples/s``: a bare number could be met in another unit."""


class Requirement(Frozen):
    """The least values that are required of the cases that ``only`` selects (as ``--only``; null: every case).

    ``throughput`` is the rate of all devices, ``per_device`` that of one. ``efficiency`` is the share of linear scaling
    from the case's smallest scale; a case that is itself the smallest has none, and nothing is required of it.
    """

    only: str | None = None
    throughput: Rate | None = None
    per_device: Rate | None = None
    efficiency: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _requires_something(self) -> Self:
        if all(value is None for value in (self.throughput, self.per_device, self.efficiency)):
            raise ValueError("requires nothing: give throughput, per_device or efficiency")
        return self


def _profile_mode(value: Any) -> Any:
    """Read ``true`` and ``false`` as the usual profile and none."""
    if isinstance(value, bool):
        return ProfileMode.REDUCED if value else ProfileMode.OFF
    return value


class Suite(Frozen):
    """A resolved suite: cases in the order in which they run, and everything that their runs need.

    ``environment`` is ``auto`` (each framework's own, made by ``trainmark env create``), ``system`` (the Python that
    runs trainmark), ``docker`` or ``apptainer`` (the card's image), or the path of a Python interpreter, which contains
    a slash. A mapping gives one of these for each framework (default: ``auto``).

    ``cards`` are files of further workload cards. ``equivalence`` requests the certificate that several
    frameworks do equal work. ``launcher`` replaces the launcher of the built-in workers; other programs keep theirs.
    ``gates`` lists the gates that are switched off. With ``side_by_side``, cases run at the same time on different
    hosts, never two on one host. ``budget`` is the time in seconds that all runs together may
    take (YAML also takes ``5min``): cases that do not fit are left out, the longest first. Paths are relative to the
    suite's file.
    ``baseline`` selects the case (one for each model) with which a report compares the others, as ``--only`` does.
    ``profile`` requests one more run of each case, under a profiler: ``true``, or ``trace`` to store its files too.
    ``require`` are the least values that the results must reach; a run of the suite judges them.
    ``cases`` is the expanded matrix.
    """

    name: Word
    description: str = ""
    environment: Environments = EACH_ITS_OWN
    protocol: Protocol = Field(default_factory=lambda: Protocol.model_validate(ProtocolName.ADAPTIVE.value))
    limits: Limits = Limits()
    cards: tuple[str, ...] = ()
    datasets: Mapping[Word, Dataset] = Field(default_factory=dict)
    naming: NamingScheme = NamingScheme.CASE
    equivalence: bool = True
    gates: Gates = Gates()
    launcher: Literal[Launcher.RANKS, Launcher.TORCHRUN, Launcher.MPIRUN] | None = None
    side_by_side: bool = False
    budget: Annotated[PositiveFloat | None, BeforeValidator(_seconds)] = None
    baseline: str | None = None
    profile: Annotated[ProfileMode, BeforeValidator(_profile_mode)] = ProfileMode.OFF
    require: tuple[Requirement, ...] = ()
    cases: tuple[Case, ...]

    def environment_of(self, framework: str) -> str:
        """Return the environment (a word or a path) of a framework's cases."""
        if isinstance(self.environment, str):
            return self.environment
        return self.environment.get(framework, EACH_ITS_OWN)
