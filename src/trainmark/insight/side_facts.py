"""The facts of a measured result beyond its recipe: how its runs used their machine, and what they ran with."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from trainmark.insight.bound import BoundFacts, bound_facts
from trainmark.insight.comparison import environment_differences
from trainmark.schema.case import Case
from trainmark.schema.manifest import Manifest
from trainmark.schema.names import IDENTITY
from trainmark.schema.outcome import Entries, PartName
from trainmark.schema.results import RunResult, StoredManifest
from trainmark.schema.telemetry import POWER_LIMIT

_MOST_OF_A_PART = 6
"""More differing entries of one part are counted and not listed."""

_IN_RECIPE = (
    "cpu.model",
    "os.name",
    "accelerators.driver",
    "framework.framework",
    "framework.version",
    "framework.cuda",
    "framework.cudnn",
    "framework.nccl",
    "].name",
    "].memory_bytes",
)
"""Facts of a manifest that are axes of the recipe as well."""

_NO_CAUSE = ("hostname", "trainmark", "git.", "environment_lock")
"""Facts of a manifest that make no program faster: names, and digests of what is listed in full elsewhere."""

_LISTED = (
    PartName.PACKAGES,
    PartName.VARIABLES,
    PartName.SOURCE,
    PartName.COMMANDS,
    PartName.DATA,
    PartName.FILES,
    PartName.PREPARED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """The use of its machine by one run over its window; None for what was not recorded.

    Shares are 0 to 1. ``cores`` is the mean number of CPUs that its processes used, ``allowed_cpus`` how many they may
    use of ``cpus``. ``cpu_wait`` is the share of the window that they waited for a CPU, ``quota_stop`` the share for
    which a CPU quota stopped them. ``clock_mhz`` is the mean clock of its GPUs, ``power_limited`` the share of samples
    at the power limit, ``slowed`` the share with a slowdown by heat or a brake.
    """

    data_wait: float | None = None
    rank_wait: float | None = None
    cores: float | None = None
    cpus: int | None = None
    allowed_cpus: int | None = None
    other_load: float | None = None
    cpu_wait: float | None = None
    quota_stop: float | None = None
    gpu_busy: float | None = None
    clock_mhz: float | None = None
    power_limited: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    slowed: float | None = None


@dataclass(frozen=True, slots=True)
class SideFacts:
    """The facts that a result records besides its number and its recipe.

    ``uses`` has one entry for each run in the number. ``entries`` are the packages, variables and files of its first
    run by part; ``settings`` what its program printed. ``campaign`` identifies the result that its runs belong to,
    ``hosts`` are the names of its hosts, and ``period`` is from the start of its first run to that of its last one.
    """

    uses: tuple[MachineUse, ...] = ()
    on_gpu: bool = False
    devices: int = 1
    manifest: Manifest | None = None
    entries: Mapping[PartName, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    campaign: str | None = None
    hosts: frozenset[str] = frozenset()
    period: tuple[datetime, datetime] | None = None

    def took_turns_with(self, other: "SideFacts") -> bool:
        """Return whether the runs of both sides took turns: in one result, on the same hosts, at the same time.

        Cases of one result may be measured side by side on several hosts, or on another day after ``--resume``.
        """
        if self.campaign is None or self.campaign != other.campaign or self.hosts != other.hosts:
            return False
        if self.period is None or other.period is None:
            return True
        return self.period[0] <= other.period[1] and other.period[0] <= self.period[1]

    def values(self, name: str) -> tuple[float, ...]:
        """Return a fact of all runs; nothing if a run lacks it."""
        found = [getattr(use, name) for use in self.uses]
        return () if None in found else tuple(found)


def facts_of(
    case: Case, runs: Iterable[RunResult], manifests: Mapping[str, StoredManifest], folder: Path | None
) -> SideFacts:
    """Return the facts of the runs of a case; ``folder`` is their result directory, if known."""
    known = list(runs)
    facts = [bound_facts(case, run, manifests.get(run.manifest or "")) for run in known]
    if not facts:
        return SideFacts()
    manifest = manifests.get(known[0].manifest or "")
    starts = [run.started_at for run in known if run.started_at is not None]
    return SideFacts(
        uses=tuple(map(_use, facts)),
        on_gpu=any(one.on_gpu for one in facts),
        devices=facts[0].devices,
        manifest=manifest if isinstance(manifest, Manifest) else None,
        entries={} if folder is None else _entries(folder, known[0]),
        campaign=None if folder is None else str(folder.resolve()),
        hosts=frozenset(host for run in known for host in run.hosts),
        period=(min(starts), max(starts)) if starts else None,
    )


def _use(facts: BoundFacts) -> MachineUse:
    nodes, gpus = facts.nodes, [gpu.summary for gpu in facts.gpus]
    cores = [node.cpu_tree_mean * node.cpus for node in nodes if node.cpu_tree_mean is not None and node.cpus]
    stops = [
        node.cpu_throttled_s / node.window_s
        for node in nodes
        if node.cpu_throttled_s is not None and node.window_s
    ]
    return MachineUse(
        data_wait=facts.data_wait,
        rank_wait=None if facts.ranks is None else facts.ranks.waits,
        cores=sum(cores) if len(cores) == len(nodes) and cores else None,
        cpus=_total(node.cpus for node in nodes),
        allowed_cpus=_total(node.busy_cpus for node in nodes),
        other_load=_mean(node.cpu_other_mean for node in nodes),
        cpu_wait=_highest(node.cpu_wait_mean for node in nodes),
        quota_stop=max(stops, default=None),
        gpu_busy=_mean(gpu.utilisation_mean for gpu in gpus),
        clock_mhz=_mean(gpu.sm_clock_mhz_mean for gpu in gpus),
        power_limited=_mean(gpu.reason_shares.get(POWER_LIMIT, 0.0) for gpu in gpus),
        power_w=_mean(gpu.power_w_mean for gpu in gpus),
        power_limit_w=_mean(gpu.power_limit_w for gpu in facts.gpus),
        slowed=_mean(gpu.throttled_share for gpu in gpus),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _total(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if not known or None in known else sum(value or 0 for value in known)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _entries(folder: Path, run: RunResult) -> dict[PartName, Mapping[str, str]]:
    """Return the entries of a run's identity by part, as far as its result directory has them."""
    found: dict[PartName, Mapping[str, str]] = {}
    for part in run.identity.parts if run.identity is not None else ():
        try:
            text = (folder / IDENTITY / part.entries_file).read_bytes()
            found[part.name] = Entries.model_validate_json(text).entries
        except (OSError, ValidationError):
            continue
    return found


@dataclass(frozen=True, slots=True)
class FactDifference:
    """A fact that differs: its name with its kind (``package numpy``), and both values as text."""

    name: str
    here: str
    there: str
    where: str


def program_differences(
    here: SideFacts, there: SideFacts, *, commands: bool, one_framework: bool = True
) -> Iterator[FactDifference]:
    """Yield the packages, variables, files and words of commands that differ, and printed settings.

    ``commands`` is false where differing axes or options explain why the commands differ. Packages and source files of
    two frameworks differ by nature, so that they are one difference each.
    """
    for part in _LISTED:
        one, other = _shortened(part, here.entries.get(part), there.entries.get(part))
        if one is None or other is None or one == other or (part is PartName.COMMANDS and not commands):
            continue
        if part in _OF_FRAMEWORK and not one_framework:
            where = f"identity of the run, {part.value}"
            label = f"{part.value} of another framework"
            yield FactDifference(label, f"{len(one)} entries", f"{len(other)} entries", where)
            continue
        yield from _of_part(part, one, other)
    for name in here.settings.keys() & there.settings.keys():
        if here.settings[name] != there.settings[name] and "/" not in here.settings[name]:
            yield FactDifference(
                f"setting {name}", here.settings[name], there.settings[name], "printed by the program"
            )


_Entries = Mapping[str, str] | None


def _shortened(part: PartName, one: _Entries, other: _Entries) -> tuple[_Entries, _Entries]:
    """Return a part's entries of both sides: variables without their nodes, source files without their folders.

    The names are left as they are if entries of one short name differ, such as a variable of two nodes.
    """
    before = {PartName.VARIABLES: " ", PartName.SOURCE: "/"}.get(part)
    if one is None or other is None or before is None:
        return one, other
    short = [{name.rpartition(before)[2]: side[name] for name in side} for side in (one, other)]
    for side, named in zip((one, other), short, strict=True):
        if any(named[name.rpartition(before)[2]] != side[name] for name in side):
            return one, other
    return short[0], short[1]


_OF_FRAMEWORK = (PartName.PACKAGES, PartName.SOURCE)

_WORDS = {
    PartName.PACKAGES: "package",
    PartName.VARIABLES: "variable",
    PartName.SOURCE: "source",
    PartName.COMMANDS: "command",
    PartName.DATA: "data",
    PartName.FILES: "data file",
    PartName.PREPARED: "prepared file",
}


def _of_part(part: PartName, one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[FactDifference]:
    where = f"identity of the run, {part.value}"
    if part is PartName.COMMANDS:
        for name, here, there in _words_of_commands(one, other):
            yield FactDifference(f"command {name}".rstrip(), here, there, where)
        return
    differing = [
        name
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name) and not name.startswith(("framework ", "lock"))
    ]
    for name in differing[:_MOST_OF_A_PART]:
        yield FactDifference(f"{_WORDS[part]} {name}", _short(one.get(name)), _short(other.get(name)), where)
    if (more := len(differing) - _MOST_OF_A_PART) > 0:
        label = f"{more} more of the {part.value}"
        yield FactDifference(label, f"{len(one)} entries", f"{len(other)} entries", where)


def _short(value: str | None) -> str:
    if value is None:
        return "none"
    is_digest = len(value) == 64 and all(letter in "0123456789abcdef" for letter in value)
    return f"{value[:8]}…" if is_digest else value[:80]


def _words_of_commands(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the options and the variables of the commands that differ, by name; else the whole words that differ."""
    here, there = ({**_options(_words(entries)), **_variables(entries)} for entries in (one, other))
    for name in dict.fromkeys((*here, *there)):
        if here.get(name) != there.get(name):
            yield name, here.get(name, "not given"), there.get(name, "not given")


def _words(entries: Mapping[str, str]) -> str:
    return " ".join(value for name, value in entries.items() if _VARIABLE not in name)


def _variables(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the first command that has each."""
    found: dict[str, str] = {}
    for name, value in entries.items():
        if _VARIABLE in name:
            found.setdefault(f"variable {name.partition(_VARIABLE)[2]}", value)
    return found


_VARIABLE = " variable "
"""What stands between a command and the name of its variable in the entries of a run's commands."""


def _options(text: str) -> dict[str, str]:
    """Return the options of a command by name, with ``words`` for those that belong to none."""
    found: dict[str, str] = {}
    name = ""
    for word in text.split():
        if word.startswith("-") and not word[1:2].isdigit():
            name, sign, value = word.partition("=")
            found[name] = value if sign else ""
            name = "" if sign else name
        elif name and not found[name]:
            found[name] = word
        else:
            found[""] = f"{found.get('', '')} {word}".strip()
    return {key: value or "given" for key, value in found.items()}


def machine_differences(here: SideFacts, there: SideFacts) -> Iterator[FactDifference]:
    """Yield the facts of the two machines that differ, without those that are axes of a recipe."""
    if here.manifest is None or there.manifest is None:
        return
    names: set[str] = set()
    for path, one, other in environment_differences(here.manifest, there.manifest):
        name = path.partition(".")[2]
        skipped = any(word in name for word in _NO_CAUSE) or any(name.endswith(end) for end in _IN_RECIPE)
        if skipped or name in names or (here.entries and name.startswith("variables.")):
            continue
        names.add(name)
        yield FactDifference(f"machine {name}", _text(one), _text(other), "manifest.json")


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
