"""The suite of a call: read from its file, or made from a command; and the hosts that it runs on."""

import itertools
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from trainmark.documents import read_document
from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.resolving import ENGINES
from trainmark.errors import InputError, TrainmarkError, nearest, plain_message
from trainmark.files import write_atomically
from trainmark.schema.case import UNKNOWN
from trainmark.schema.names import COMMAND_CARD, COMMAND_SUITE, SUITE
from trainmark.schema.precision import Precision
from trainmark.schema.suite import EACH_ITS_OWN, Launcher, Requirement, Suite
from trainmark.suite import FROM_SLURM, load_hosts, load_suite
from trainmark.tasks import neutral_task
from trainmark.workload import (
    OF_SEVERAL_NODES,
    NoCardError,
    Recognised,
    is_srun,
    load_workloads,
    nodes_in,
    placeholders_in,
    program_files,
    program_name,
    reaches_nodes,
    recognise,
    tasks_per_node,
)
from trainmark.workload.card import AUTO_FORMAT, NUMBERS, expression_names, filled

if TYPE_CHECKING:
    from trainmark.cli.run_options import CommandOptions
    from trainmark.node import Host


def read_suite(path: Path) -> Suite:
    """Return the suite in ``path``; raise ``InputError`` for an invalid suite, an invalid card or an unknown name.

    The names are those of workloads, of their frameworks, and of the environment.
    """
    if path.is_dir():
        suites = [name for name in (COMMAND_SUITE, SUITE) if (path / name).is_file()]
        example = f"; this result directory has {path / suites[0]}" if suites else ""
        raise InputError(f"{path}: is a folder; give the suite's file{example}")
    name = path.name.removesuffix(".yaml")
    if not path.exists() and (resources("trainmark") / "suites" / f"{name}.yaml").is_file():
        raise InputError(
            f"{path}: no such file; '{name}' comes with trainmark: trainmark suites copy {name} {name}.yaml"
        )
    try:
        suite = load_suite(path)
    except InputError:
        # A suite takes values from its cards: report their mistakes where they are.
        _check_cards(path)
        raise
    from trainmark.campaign import load_programs  # not imported for a log alone

    workloads = load_programs(suite)
    for case in {(case.workload, case.framework): case for case in suite.cases}.values():
        try:
            workloads.find(case)
        except NoCardError as error:
            document = read_document(path)
            raise document.error(document.find(error.axis, case.value(error.axis)), str(error)) from None
    requested = suite.environment
    names = {"": requested} if isinstance(requested, str) else requested
    for framework, name in names.items():
        if name not in (EACH_ITS_OWN, SYSTEM, *ENGINES) and os.sep not in name:
            try:
                find_entry(name)
            except InputError as error:
                key = ("environment", framework) if framework else ("environment",)
                raise read_document(path).error(key, str(error)) from None
    return suite


def _check_cards(path: Path) -> None:
    """Raise ``InputError`` for the mistakes in the cards of a suite that cannot be read itself."""
    from trainmark.campaign import program_mistakes

    values = read_document(path).values
    cards = values.get("cards") if isinstance(values, dict) else None
    files = [path.resolve().parent / card for card in cards or () if isinstance(card, str)]
    load_workloads([file for file in files if file.is_file()], (program_mistakes,))


@contextmanager
def chosen_hosts(given: str | None, engine: str | None) -> "Iterator[tuple[Host, ...]]":
    """Yield the hosts in their order (by default this machine only), and close their connections at the end.

    Raises ``InputError`` for an invalid hosts file or an unknown engine. A host that cannot be reached is included;
    it reports the reason when it is used.
    """
    from trainmark.node import LocalHost, RemoteHost, connect_hosts, map_hosts
    from trainmark.schema.hosts import EngineName

    if engine is not None and engine not in set(EngineName):
        raise InputError(
            f"--engine {engine}: unknown engine{nearest(engine, EngineName)} ({', '.join(EngineName)})"
        )
    if given is None:
        if engine is not None:
            raise InputError(f"--engine {engine}: add --hosts; without it only this machine is used")
        yield (LocalHost(),)
        return
    hosts = connect_hosts(load_hosts(given, os.environ, None if engine is None else EngineName(engine)))
    try:
        yield hosts
    finally:
        map_hosts([host for host in hosts if isinstance(host, RemoteHost)], RemoteHost.close)


def count_hosts(given: str | None, engine: str | None) -> int:
    """Return the number of hosts of ``--hosts``; one, this machine, without it."""
    if given is None:
        return 1
    from trainmark.schema.hosts import EngineName

    chosen = EngineName(engine) if engine in set(EngineName) else None
    return len(load_hosts(given, os.environ, chosen).hosts)


_WORD = re.compile(r"[^A-Za-z0-9._+-]+")
BEFORE_A_COMMAND = "put '--' before a command: trainmark run -- python train.py"
_STARTED_BY = {".py": "python", ".sh": "bash"}
_OPTION = re.compile(r"[A-Za-z_]\w*")
DEVICES = "devices_per_node"
NODES = "nodes"
"""The axes that ``--vary`` may name: their cases have different numbers of devices, and are scales of one program."""


@dataclass(frozen=True, slots=True)
class CommandSuite:
    """A suite and a card as documents, and the assumptions as sentences."""

    name: str
    suite: Mapping[str, Any]
    card: Mapping[str, Any]
    recognised: Recognised
    assumed: tuple[str, ...] = field(default=())

    def write(self, out: Path) -> Path:
        """Write both documents into ``out``, and return the path of the suite; no file of another command is replaced.

        Raises ``InputError`` if ``out`` is not empty and no result directory, or has the documents of another command.
        """
        from trainmark.execution import refuse_foreign  # not imported to read a suite

        try:
            out.mkdir(parents=True, exist_ok=True)
            refuse_foreign(out)
            documents = {out / COMMAND_CARD: self.card, out / COMMAND_SUITE: self.suite}
            for path, document in documents.items():
                self._refuse_other(path, document)
            for path, document in documents.items():
                text = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=110)
                if not path.exists() or path.read_text(encoding="utf-8") != text:
                    write_atomically(path, text)
        except OSError as error:
            raise InputError(f"{out}: cannot be made a result directory: {error.strerror}") from None
        return out / COMMAND_SUITE

    @contextmanager
    def stored(self, out: Path) -> Iterator[Path]:
        """Write both documents into ``out``; restore the files on an error in the context that leaves no results."""
        paths = (out / COMMAND_CARD, out / COMMAND_SUITE)
        before = {path: path.read_text(encoding="utf-8") if path.is_file() else None for path in paths}
        suite = self.write(out)
        try:
            yield suite
        except TrainmarkError:
            for path, text in before.items():
                if text is not None:
                    write_atomically(path, text)
                elif not (out / SUITE).exists():
                    path.unlink(missing_ok=True)
            raise

    @staticmethod
    def _refuse_other(path: Path, document: Mapping[str, Any]) -> None:
        """Raise ``InputError`` if ``path`` has another document; its limits and its number of runs may be raised."""
        if not path.exists():
            return
        try:
            there = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (ValueError, yaml.YAMLError):
            there = None
        if not isinstance(there, dict) or _without_bounds(there) != _without_bounds(document):
            raise InputError(
                f"{path.parent}: belongs to another suite or command, or to this one with other options ({path} "
                f"differs); give another --out, or run {path.with_name(COMMAND_SUITE)} itself to continue it"
            )


def _without_bounds(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite's or a card's document without what may be raised, or judged anew, later."""
    protocol = document.get("protocol")
    rest = {key: value for key, value in protocol.items() if "repeats" not in key} if protocol else None
    return {**document, "limits": None, "protocol": rest, "require": None}


def command_suite(words: Sequence[str], given: "CommandOptions", folder: Path) -> CommandSuite:
    """Return the suite and the card that measure ``words``, started in ``folder``.

    Raises ``InputError`` for options that cannot be used.
    """
    if not words:
        raise InputError("no command after '--': trainmark run [OPTIONS] -- COMMAND…")
    _check_words(words)
    varied = dict(_varied("--vary", text) for text in given.vary or ())
    variables = dict(_varied("--env", text) for text in given.env or ())
    _require_used(varied, words)
    recognised = recognise(words, folder, os.environ)
    name = _name(given.name or program_name(words, recognised, folder))
    on_devices = _counts(DEVICES, varied.pop(DEVICES)) if DEVICES in varied else None
    on_nodes = _counts(NODES, varied.pop(NODES)) if NODES in varied else None
    options = {**varied, **variables}
    framework = recognised.framework or UNKNOWN
    if on_devices is not None and given.devices is not None:
        raise InputError(
            f"--devices {given.devices}: --vary {DEVICES} gives the devices; leave one of them out"
        )
    points = [
        _Point(
            dict(zip(options, values, strict=True)),
            devices or _devices_in(words, options, values, nodes, folder),
            nodes,
        )
        for nodes in on_nodes or (given.nodes,)
        for devices in on_devices or (given.devices,)
        for values in itertools.product(*options.values())
    ]
    card: dict[str, Any] = {
        "name": name,
        "description": shlex.join(words)[:200],
        "framework": framework,
        "task": neutral_task(),
        "environment": "system",
        "source": {"kind": "files", "files": list(program_files(words, recognised, folder))},
        "launcher": Launcher.COMMAND.value,
        "working_directory": str(folder.resolve()),
        "log_format": _log_format(given.format),
        "command": list(words),
        "axes": {"nodes": {}, "devices_per_node": {}},
    }
    if options:
        card["options"] = {name: [] for name in options}
    if variables:
        card["environment_variables"] = {name: f"{{{name}}}" for name in variables}
    limits = {"steps": given.steps, "epochs": given.epochs, "seconds": given.seconds}
    stop = {key: value for key, value in limits.items() if value}
    card |= {"stop_after": stop} if stop else {}
    if given.parameters is not None:
        card["parameters"] = _parameters(given.parameters)
    if given.precision is not None:
        card["axes"]["precision"] = {"only": [_precision(given.precision)]}
    if given.work_per_step is not None:
        card["work_per_step"] = _work(given.work_per_step, options)
    for key in ("unit", "skip", "layers", "hidden_size", "sequence_length"):
        if (value := getattr(given, key)) is not None:
            card[key] = value
    return CommandSuite(
        name,
        {"environment": python_of(recognised), **_suite(name, framework, card, given, points)},
        card,
        recognised,
        _assumptions(given, recognised, points),
    )


def _check_words(words: Sequence[str]) -> None:
    """Raise ``InputError`` for words that only a shell would take apart: a command in quotes, or an assignment."""
    first, found = words[0], shutil.which(words[0])
    if found is None and " " in first and shutil.which(first.split()[0]):
        raise InputError(f"'{first}': write the command without quotes around it: trainmark run -- {first}")
    if found is None and re.fullmatch(r"[A-Za-z_]\w*=.*", first):
        raise InputError(f"'{first}': only a shell sets a variable like this; write: env {first} COMMAND")


def refuse_command(suite: Path) -> None:
    """Raise ``InputError`` if ``suite`` is a program, or no file but a command (one word, or words in quotes)."""
    if suite.suffix in _STARTED_BY and suite.is_file():
        command = shlex.join((_STARTED_BY[suite.suffix], str(suite)))
        raise InputError(
            f"{suite}: is a program and no suite's file; measure it by: trainmark run -- {command}"
        )
    if not suite.exists() and shutil.which(str(suite).partition(" ")[0]):
        raise InputError(f"{suite}: is not a suite's file; {BEFORE_A_COMMAND}")


def check_program(words: Sequence[str], folder: Path) -> None:
    """Raise ``InputError`` if this machine has no program of the first word, or Python's script is missing.

    Words with a placeholder and Python's own options are not checked.
    """
    first = words[0]
    if "{" in first:
        return
    if shutil.which(str(folder / first) if "/" in first else first) is None:
        raise InputError(_no_program(first, folder))
    script = words[1] if len(words) > 1 and re.fullmatch(r"python[\d.]*", Path(first).name) else ""
    if script.endswith(".py") and "{" not in script and not (folder / script).exists():
        raise InputError(f"{script}: no such file in {folder}")


def _no_program(first: str, folder: Path) -> str:
    """Return why the first word of a command starts nothing, and what to write instead."""
    path = folder / first
    if path.is_file():
        command = shlex.join((_STARTED_BY.get(path.suffix, "python"), first))
        return f"{first}: is not an executable program; write: trainmark run -- {command}"
    return f"{first}: no such program; the words after '--' are the command as you type it in a shell"


@dataclass(frozen=True, slots=True)
class _Point:
    """The values of the options in one case, its nodes, and the devices of each; None if the command shows neither."""

    options: Mapping[str, Any]
    devices: int | None
    nodes: int | None


def _devices_in(
    words: Sequence[str],
    options: Mapping[str, Any],
    values: Sequence[Any],
    nodes: int | None,
    folder: Path,
) -> int | None:
    """Return the devices of a node that the command shows with these values of its options."""
    texts = {name: str(value) for name, value in zip(options, values, strict=True)}
    with_values = [filled(word, texts) for word in words]
    return _devices_of_node(with_values, recognise(with_values, folder, os.environ), nodes)


def _counts(name: str, values: Sequence[Any]) -> tuple[int, ...]:
    """Return values that count something; raise ``InputError`` for another one."""
    for value in values:
        if not isinstance(value, int) or value < 1:
            raise InputError(f"--vary {name}: '{value}' is not a number above 0")
    return tuple(values)


def _required(text: str) -> dict[str, Any]:
    """Return the requirement ``NAME=MINIMUM`` as in a suite; raise ``InputError`` for another name or value."""
    name, _, least = text.partition("=")
    names = [field for field in Requirement.model_fields if field != "only"]
    if name not in names:
        raise InputError(
            f"--require {text}: write NAME=MINIMUM with one of {', '.join(names)}{nearest(name, names)}"
        )
    try:
        return Requirement.model_validate({name: least}).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        raise InputError(f"--require {text}: {plain_message(error.errors()[0]['msg'])}") from None


def _work(text: str, options: Mapping[str, list[Any]]) -> int | str:
    """Return the work of a step: a number, or an expression over the varied names and the numbers of a case."""
    if re.fullmatch(r"0*[1-9]\d*", text):
        return int(text)
    names = expression_names(text, "--work-per-step")
    known = (*NUMBERS, *options)
    unknown = sorted(name for name in names if name not in known)
    if unknown or not names:
        wrong = (
            f"'{unknown[0]}' in '{text}' is not a name of --vary"
            if unknown
            else f"'{text}' is not a number above 0"
        )
        raise InputError(
            f"--work-per-step: {wrong}; write a number such as 256, or '{{batch}} * 512' with --vary batch=…"
        )
    return text


def _suite(
    name: str,
    framework: str,
    card: Mapping[str, Any],
    given: "CommandOptions",
    points: Sequence[_Point],
) -> dict[str, Any]:
    defaults: dict[str, Any] = {"task": neutral_task(), "workload": name, "framework": framework}
    if given.precision is not None:
        defaults["precision"] = given.precision
    cases = [
        {
            **defaults,
            **({NODES: point.nodes} if point.nodes is not None else {}),
            **({DEVICES: point.devices} if (point.devices or 1) > 1 else {}),
            **({"options": dict(point.options)} if point.options else {}),
        }
        for point in points
    ]
    suite: dict[str, Any] = {
        "name": name,
        "description": card["description"],
        "cards": [COMMAND_CARD],
        "protocol": _protocol(given),
        "cases": cases,
    }
    if given.timeout is not None:
        suite["limits"] = {"timeout_s": given.timeout}
    if given.require:
        suite["require"] = [_required(text) for text in given.require]
    return suite


def _protocol(given: "CommandOptions") -> dict[str, Any]:
    if given.until_half_width is not None:
        least = given.repeats or 3
        return {
            "name": "adaptive",
            "min_repeats": least,
            "max_repeats": max(10, least),
            "target_half_width": given.until_half_width,
        }
    return {"name": "adaptive", "repeats": given.repeats or 3, "target_half_width": None}


def hosts_of(words: Sequence[str], given: "CommandOptions", environment: Mapping[str, str]) -> str | None:
    """Return the hosts of a command without ``--hosts``: those of the Slurm allocation for srun, and for more nodes."""
    if "SLURM_JOB_ID" not in environment:
        return None
    return FROM_SLURM if is_srun(words) or max(_varied_nodes(given) or (given.nodes or 1,)) > 1 else None


def _varied_nodes(given: "CommandOptions") -> tuple[int, ...] | None:
    """Return the numbers of nodes of ``--vary nodes=…``; None without it."""
    varied = dict(_varied("--vary", text) for text in given.vary or ())
    return _counts(NODES, varied[NODES]) if NODES in varied else None


def nodes_of(words: Sequence[str], given: "CommandOptions", hosts: int) -> int | None:
    """Return the nodes of a command on ``hosts`` hosts: all if it has a placeholder of several nodes, else one.

    A number in the command's own words comes first; with ``--vary nodes=…`` each case has its own. Raises
    ``InputError`` for more nodes than hosts, and for two numbers that differ.
    """
    stated, on_nodes = nodes_in(words), _varied_nodes(given)
    if on_nodes is not None:
        if given.nodes is not None:
            raise InputError(f"--nodes {given.nodes}: --vary nodes gives the nodes; leave one of them out")
        if max(on_nodes) > hosts:
            raise InputError(f"--vary nodes: --hosts has only {hosts}, and {max(on_nodes)} are required")
        return None
    if given.nodes is not None and stated not in (None, given.nodes):
        raise InputError(
            f"--nodes {given.nodes}: the command itself states {stated} nodes; write {{nodes}} there, or leave out "
            "--nodes"
        )
    nodes = given.nodes or (stated if hosts > 1 else None)
    if nodes is not None and nodes > hosts:
        flag = "--nodes" if given.nodes is not None else "the command's number of nodes:"
        only = f"has only {hosts}" if hosts > 1 else "names no more than this machine (--hosts FILE)"
        raise InputError(f"{flag} {nodes}: --hosts {only}")
    if nodes is not None or hosts == 1:
        return nodes
    varied = {text.partition("=")[0] for text in given.vary or ()}
    there = {name for word in words for name in placeholders_in(word)} - varied
    return hosts if there & OF_SEVERAL_NODES or is_srun(words) else None


def _devices_of_node(words: Sequence[str], recognised: Recognised, nodes: int | None) -> int | None:
    if (tasks := tasks_per_node(words)) is not None:
        return tasks
    devices = recognised.devices
    if devices is None or not nodes or not reaches_nodes(words):
        return devices
    # mpirun and srun are told the processes of all nodes.
    if devices % nodes:
        raise InputError(
            f"{devices} processes cannot be shared out evenly to {nodes} nodes; give --devices N"
        )
    return devices // nodes


def _varied(flag: str, text: str) -> tuple[str, list[Any]]:
    name, sign, values = text.partition("=")
    if not sign or not _OPTION.fullmatch(name):
        raise InputError(f"{flag} {text}: should be NAME=VALUE,VALUE,…")
    found = [_typed(value) for value in values.split(",")]
    if len(set(map(str, found))) < len(found):
        raise InputError(f"{flag} {text}: names a value twice")
    return name, found


def _typed(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        # 016 and 1e3 stay as they were written: a program may read them otherwise.
        return number if str(number) == value else value
    return value


def _parameters(text: str) -> int:
    found = re.fullmatch(r"([\d.]+)\s*([kMB]?)", text)
    try:
        count = float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "B": 1e9}[found[2]] if found else 0.0
    except ValueError:
        count = 0.0
    if count < 1:
        raise InputError(f"--parameters {text}: should be a number such as 124M or 1.2B")
    return round(count)


def _precision(text: str) -> str:
    if text not in set(Precision):
        raise InputError(
            f"--precision {text}: unknown{nearest(text, Precision)} (known: {', '.join(Precision)})"
        )
    return text


def _require_used(varied: Mapping[str, object], words: Sequence[str]) -> None:
    there = {name for word in words for name in placeholders_in(word)}
    for name in varied:
        if name == NODES and (there & OF_SEVERAL_NODES or is_srun(words)):
            continue
        if name not in there:
            raise InputError(
                f"--vary {name}: the command has no {{{name}}}; write it where the value belongs"
            )


def _name(program: str) -> str:
    name = _WORD.sub("-", program).strip("-.")[:40] or "command"
    return name if name[0].isalnum() else f"run{name}"


def default_directory(name: str) -> Path:
    """Return the first free result directory of today: ``results/NAME-20261125-1``."""
    day = date.today().strftime("%Y%m%d")
    taken = (Path("results") / f"{name}-{day}-{number}" for number in itertools.count(1))
    return next(path for path in taken if not path.exists())


def python_of(recognised: Recognised) -> str:
    """Return the environment of a suite in which a command runs: its own Python, or else trainmark's."""
    return "system" if recognised.interpreter is None else str(recognised.interpreter)


def _log_format(given: str | None) -> Any:
    if given is None:
        return AUTO_FORMAT
    if given.endswith((".yaml", ".yml")):
        from trainmark.logs.description import read_description

        read_description(Path(given))
        return yaml.safe_load(Path(given).read_text(encoding="utf-8"))
    from trainmark.programs import find_format

    return find_format(given).name


def _assumptions(
    given: "CommandOptions", recognised: Recognised, points: Sequence[_Point]
) -> tuple[str, ...]:
    found = []
    if given.devices is None and any(point.devices is None for point in points):
        found.append("the command does not show how many devices it uses: 1 (--devices N)")
    elif given.devices is None and recognised.launcher == "python":
        found.append("one process, on one device (--devices N)")
    return tuple(found)
