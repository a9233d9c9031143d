"""Facts about a training program from its command line: launcher, devices, script and framework."""

import ast
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from trainmark.schema.names import BISECTION, BLOCKS, COMMAND_SUITE, SUITE

_FRAMEWORKS = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "flax": "jax",
    "mxnet": "mxnet",
    "paddle": "paddle",
    "mindspore": "mindspore",
    "oneflow": "oneflow",
}
"""The frameworks by the modules that a script imports."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
}
_DEVICE_FLAGS = {
    "torchrun": ("--nproc-per-node", "--nproc_per_node"),
    "accelerate": ("--num_processes", "--num-processes"),
    "deepspeed": ("--num_gpus",),
    "mpirun": ("-np", "-n", "--n"),
    "mpiexec": ("-np", "-n", "--n"),
    "srun": ("-n", "--ntasks"),
}
"""The flags by which each launcher is told the number of its processes."""

_NO_SOURCES = ("pyvenv.cfg", SUITE, COMMAND_SUITE, BLOCKS, BISECTION)
"""Files that mark a folder of a virtual environment, or of results that trainmark wrote next to the program."""

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish"})
SRUN = "srun"
REACHES_NODES = frozenset({"mpirun", "mpiexec", "srun"})
"""The launchers that are started on the first node only and start the ranks of the others."""

OF_SEVERAL_NODES = frozenset({"nodes", "node", "hosts", "master", "world_size"})
"""The placeholders of a command that runs on several nodes."""

_OF_PYTORCH = frozenset({"torchrun", "accelerate", "deepspeed"})
_PROGRAM_SUFFIXES = (".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".sh")
_COMMON_SCRIPTS = frozenset({"main", "train", "run", "__main__"})
_COMMON_FOLDERS = frozenset({"src", "scripts", "tools", "code", "bin", "tmp"})
"""Names that tell nothing of a program, because every project uses them."""

_MOST_FILES = 2000
_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Recognised:
    """The facts that a command line shows about its program.

    ``launcher`` is the word that starts the ranks (``python`` for one process, None if unknown); ``devices`` the number
    of its processes on this machine, None if the command does not show it; ``interpreter`` the Python that runs the
    program; ``script`` the program's file; ``framework`` the one that the script or the launcher uses.
    """

    launcher: str | None
    devices: int | None
    interpreter: Path | None
    script: Path | None
    framework: str | None


def recognise(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Recognised:
    """Return what ``words``, started in ``folder``, show about their program; nothing is started."""
    program = _without_env(words)
    launcher, rest = _launcher(program)
    script = _module_file(_module(program), folder) or next(
        (folder / word for word in program if word.endswith(".py") and (folder / word).is_file()), None
    )
    framework = "pytorch" if launcher in _OF_PYTORCH else _framework(script)
    devices = 1 if launcher == "python" else _devices(launcher, rest)
    return Recognised(launcher, devices, _interpreter(program, folder, environment), script, framework)


def program_name(words: Sequence[str], recognised: Recognised, folder: Path) -> str:
    """Return the name of a program started in ``folder``: its script's, the module's after ``-m``, or the first word's.

    The script of a shell counts too: ``bash train.sh``, ``srun ./train.sh``, ``sh -c "python pretrain.py"``. A script
    that is named as everybody's are (``main.py``, ``train.sh``) has the name of its project's folder.
    """
    program = _without_env(words)
    script = recognised.script
    if script is None:
        module = _module(program)
        if module:
            return module.rpartition(".")[2]
        script = folder / (_script_of_shell(program) or (program or words)[0])
    return _project_of(script) if script.stem in _COMMON_SCRIPTS and script.is_file() else script.stem


def _project_of(script: Path) -> str:
    """Return the name of the nearest folder of a script that names a project; the script's own if there is none."""
    if script.name == "__main__.py":
        return script.parent.name
    place = Path(os.path.normpath(script.absolute()))
    own = takewhile(lambda folder: folder != Path.home() and folder.name, place.parents)
    return next((folder.name for folder in own if folder.name not in _COMMON_FOLDERS), script.stem)


def _script_of_shell(program: Sequence[str]) -> str | None:
    """Return the shell script in a command: a word that ends like one, or the first operand of a shell."""
    is_shell = bool(program) and Path(program[0]).name in _SHELLS
    endings = (".sh", ".py") if is_shell else (".sh",)
    parts = re.split(r"[\s;&|()'\"]+", " ".join(program))
    script = next((part for part in parts if part.endswith(endings)), None)
    if script is not None or not is_shell:
        return script
    operand = next((word for word in program[1:] if not word.startswith(("-", "+"))), None)
    return None if operand is None or " " in operand else operand


def program_files(words: Sequence[str], recognised: Recognised, folder: Path) -> tuple[str, ...]:
    """Return the files that identify the program: those that the command names, and the sources next to its script.

    A file above 4 MiB (data, weights) is not among them, nor the Python, which the environment's facts identify; nor
    more than 2 000 files.
    """
    named = [
        folder / word
        for word in words
        if word and not word.startswith("-") and not _PYTHON.fullmatch(Path(word).name)
        if (folder / word).is_file()
    ]
    adjacent: list[Path] = []
    if recognised.script is not None:
        adjacent = list(_sources(recognised.script.parent))
    files = (path.resolve() for path in (*named, *adjacent) if path.stat().st_size <= _LARGEST_BYTES)
    return tuple(map(str, dict.fromkeys(files)))


def _sources(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(
            name
            for name in inner
            if not name.startswith((".", "__"))
            and not any(Path(place, name, marker).exists() for marker in _NO_SOURCES)
            and name not in ("node_modules", "site-packages")
        )
        found += [Path(place, name) for name in sorted(names) if name.endswith(_PROGRAM_SUFFIXES)]
        if len(found) > _MOST_FILES:
            # A folder of everything, such as a home directory: the script alone identifies the program.
            return []
    return found


def launcher_at(words: Sequence[str]) -> int | None:
    """Return the position of the launcher's word in a command; None if it starts with another program."""
    at = len(words) - len(_without_env(words))
    return at if at < len(words) and Path(words[at]).name in _DEVICE_FLAGS else None


def reaches_nodes(words: Sequence[str]) -> bool:
    """Return whether a command, started on the first node, starts the ranks of the other nodes itself."""
    at = launcher_at(words)
    return at is not None and Path(words[at]).name in REACHES_NODES


def nodes_in(words: Sequence[str]) -> int | None:
    """Return the number of nodes that the words of srun or torchrun state; None if they state none."""
    at = launcher_at(words)
    if at is None:
        return None
    flags = {"srun": ("-N", "--nodes"), "torchrun": ("--nnodes",)}.get(Path(words[at]).name, ())
    return _number_of(flags, _own_words(words[at + 1 :]))


def is_srun(words: Sequence[str]) -> bool:
    """Return whether Slurm's srun starts the ranks of a command."""
    at = launcher_at(words)
    return at is not None and Path(words[at]).name == SRUN


def tasks_per_node(words: Sequence[str]) -> int | None:
    """Return the processes that srun starts on each node, one by default; None for others, and with ``--ntasks``."""
    at = launcher_at(words)
    if at is None or not is_srun(words):
        return None
    own = _own_words(words[at + 1 :])
    if (stated := _number_of(("--ntasks-per-node",), own)) is not None:
        return stated
    return None if any(_flag_of(word, _DEVICE_FLAGS[SRUN]) for word in own) else 1


def srun_on(words: Sequence[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an srun limited to these hosts, as far as its own words do not state them."""
    at = launcher_at(words)
    if at is None or not is_srun(words):
        return tuple(words)
    own = _own_words(words[at + 1 :])
    added = [] if nodes_in(words) else [f"--nodes={len(hosts)}"]
    if not any(_flag_of(word, ("-w", "--nodelist")) for word in own):
        added.append(f"--nodelist={','.join(hosts)}")
    return (*words[: at + 1], *added, *words[at + 1 :])


def _own_words(words: Sequence[str]) -> Sequence[str]:
    """Return a launcher's words without those of its program, which begin with a Python or a script."""
    ends = (at for at, word in enumerate(words) if _PYTHON.fullmatch(Path(word).name) or word.endswith(".py"))
    return words[: next(ends, len(words))]


def hides_output(words: Sequence[str]) -> bool:
    """Return whether torchrun writes the ranks' output into files outside of the run's folder, and prints none."""
    at = launcher_at(words)
    if at is None or Path(words[at]).name != "torchrun":
        return False
    own = _own_words(words[at + 1 :])
    redirects = any(word.partition("=")[0] in ("-r", "--redirects") for word in own)
    return redirects and not any("{run}" in word for word in own)


def deals_ranks_in_turn(words: Sequence[str]) -> bool:
    """Return whether a launcher deals the ranks to the nodes in turn, one each, instead of node by node."""
    at = launcher_at(words)
    if at is None or not reaches_nodes(words):
        return False
    options = [word.lstrip("-").replace("=", " ") for word in words[at + 1 :]]
    text = " ".join(options)
    return re.search(r"\b(bynode|map-by node|distribution cyclic|m cyclic)\b", text) is not None


def _without_env(words: Sequence[str]) -> Sequence[str]:
    """Return the command without ``env NAME=VALUE`` before it."""
    if words and Path(words[0]).name == "env":
        words = words[1:]
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    return words


def _launcher(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the launcher of a command and the words after it."""
    if not words:
        return None, words
    name = Path(words[0]).name
    if _PYTHON.fullmatch(name):
        module = _module(words)
        if module is not None:
            return _MODULES.get(module, "python"), words[words.index("-m") + 2 :]
        return "python", words[1:]
    return (name, words[1:]) if name in _DEVICE_FLAGS else (None, words[1:])


def _module(words: Sequence[str]) -> str | None:
    """Return the module that ``python -m`` starts; None if the command starts none."""
    if not words or not _PYTHON.fullmatch(Path(words[0]).name) or "-m" not in words[:4]:
        return None
    at = words.index("-m") + 1
    return words[at] if at < len(words) else None


def _module_file(module: str | None, folder: Path) -> Path | None:
    """Return the file of a module in ``folder``; None for an installed one."""
    if module is None or not re.fullmatch(r"\w+(\.\w+)*", module):
        return None
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()), None)


def _devices(launcher: str | None, words: Sequence[str]) -> int | None:
    flags, words = _DEVICE_FLAGS.get(launcher or "", ()), _own_words(words)
    if any(_flag_of(word, flags) for word in words):
        return _number_of(flags, words)
    return 1 if launcher == "torchrun" else None


def _flag_of(word: str, flags: Sequence[str]) -> str | None:
    """Return which of the flags a word is: ``-n``, ``-n4``, ``--ntasks``, ``--ntasks=4``; None for another word."""
    name = word.partition("=")[0]
    if name in flags:
        return name
    short = word[:2]
    return short if short in flags and word[2:].isdecimal() else None


def _number_of(flags: Sequence[str], words: Sequence[str]) -> int | None:
    """Return the number behind the first of the flags; None without a flag, and for another value."""
    for at, word in enumerate(words):
        if (flag := _flag_of(word, flags)) is not None:
            value = word[len(flag) :].removeprefix("=") or (words[at + 1] if at + 1 < len(words) else "")
            return int(value) if value.isdecimal() and int(value) > 0 else None
    return None


def _interpreter(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the absolute path of the Python that runs the program: the command's, or its launcher's script's."""
    if reaches_nodes(words):
        # mpirun and srun are no Python programs: the Python is one of their words.
        words = [word for word in words if _PYTHON.fullmatch(Path(word).name)][:1]
    if not words:
        return None
    # A path is relative to the folder in which the command starts; a virtual environment's link is not followed.
    first_word = str(folder.absolute() / words[0]) if "/" in words[0] else words[0]
    found = shutil.which(first_word, path=environment.get("PATH"))
    if found is None:
        return None
    if _PYTHON.fullmatch(Path(found).name):
        return Path(found)
    try:
        with Path(found).open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return None
    python = first.removeprefix(b"#!").split()[:1] if first.startswith(b"#!") else []
    path = Path(os.fsdecode(python[0])) if python else None
    return path if path is not None and _PYTHON.fullmatch(path.name) and path.exists() else None


def _framework(script: Path | None) -> str | None:
    """Return the framework that a script imports; None if it imports none, or several."""
    if script is None:
        return None
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    found = {_FRAMEWORKS[module] for module in modules if module in _FRAMEWORKS}
    return found.pop() if len(found) == 1 else None
