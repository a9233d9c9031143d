"""The placeholders in the words of a card, and their substitution."""

import re
from collections.abc import Mapping
from functools import lru_cache

PLACEHOLDERS: Mapping[str, str] = {
    "value": "the axis's or the option's value",
    "source": "the program's folder",
    "framework": "the framework's name",
    "task": "the task's name",
    "run": "the run's folder, in which the program is started",
    "prepared": "the folder for the results of the prepare steps",
    "compile_cache": "the folder for compiled programs, which the runs of one environment share",
    "python": "the interpreter of the environment (in prepare steps)",
    "events": "the file for DLLogger events",
    "data": "the data set's training samples, or 'synthetic'",
    "dataset": "the folder of the whole data set, or 'synthetic'",
    "steps": "steps of the run, warm-up included",
    "warmup_steps": "steps that are not measured",
    "samples": "samples of all steps and all devices",
    "threads": "the cores of one rank",
    "loader_workers": "loader processes of one rank",
    "node_loader_workers": "loader processes of all ranks of a node",
    "seed": "the number of the run",
    "batch": "the batch of one device",
    "node_batch": "the batch of all devices of a node",
    "global_batch": "the batch of all devices of the run",
    "micro_batch": "the batch of one device divided by its accumulation steps (the axis accumulation; default: 1)",
    "learning_rate": "the learning rate for the global batch, by the card's scaling",
    "world_size": "the number of ranks",
    "nodes": "the number of nodes",
    "node": "the number of this node, from 0",
    "devices_per_node": "the number of a node's devices",
    "devices": "a node's devices as 0,1,2,3",
    "hosts": "the nodes' addresses, separated by commas",
    "master": "the address of the rendezvous",
    "port": "the port of the rendezvous",
}
"""Every valid placeholder, and the meaning of its text."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@lru_cache(maxsize=4096)
def placeholders_in(word: str) -> tuple[str, ...]:
    """Return the placeholders of a word."""
    return tuple(_PLACEHOLDER.findall(word)) if "{" in word else ()


def filled(word: str, known: Mapping[str, str], value: str | None = None) -> str:
    """Return the word with its placeholders replaced, in one pass: braces in a text stay as they are.

    ``value`` is the text of the placeholder of that name, if the word has an axis's or an option's value.
    """
    if "{" not in word:
        return word
    parts = [
        text if name is None else value if value is not None and name == "value" else known.get(name, text)
        for text, name in _parts(word)
    ]
    return "".join(parts)


@lru_cache(maxsize=4096)
def _parts(word: str) -> tuple[tuple[str, str | None], ...]:
    """Return the texts of which a word consists, each with the name of the placeholder that it is, or None."""
    pieces = _PLACEHOLDER.split(word)
    return tuple(
        (f"{{{piece}}}", piece) if at % 2 else (piece, None)
        for at, piece in enumerate(pieces)
        if at % 2 or piece
    )
