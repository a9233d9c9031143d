"""XLA's programs in a trace: what a fusion computes, which its name need not show.

HloProto 1: module; HloModuleProto 3: computations
HloComputationProto 2: instructions, 5: id
HloInstructionProto 1: name, 2: opcode, 38: ids of the computations that it calls
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trainmark.profiles.wire import fields, message_of, numbers, text_of

_DECISIVE = (
    "convolution", "dot", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    "reduce-window", "select-and-scatter", "reduce", "sort", "scatter", "gather",
)  # fmt: skip
"""Opcodes that decide what a fusion is, the first that it contains."""

_MOVING = frozenset([
    "copy", "transpose", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "broadcast",
    "reverse", "reshape", "bitcast", "parameter", "constant", "iota", "tuple", "get-tuple-element",
])  # fmt: skip


class _Instruction(NamedTuple):
    name: str
    opcode: str
    calls: tuple[int, ...]


def fusion_labels(programs: Iterable[bytes]) -> dict[str, str]:
    """Return the deciding opcode of each fusion by its name: also ``copy`` (moves only) or ``elementwise``.

    Programs may use a name twice; the larger program, which is the step, decides.
    """
    found: dict[str, str] = {}
    for program in sorted(programs, key=len):
        found.update(_labels(_computations(program)))
    return found


def _labels(computations: Mapping[int, list[_Instruction]]) -> dict[str, str]:
    return {
        one.name: _label(_opcodes(one, computations, set()))
        for instructions in computations.values()
        for one in instructions
        if one.opcode in ("fusion", "call")
    }


def _label(opcodes: set[str]) -> str:
    decisive = next((opcode for opcode in _DECISIVE if opcode in opcodes), None)
    if decisive is not None:
        return decisive
    return "copy" if opcodes <= _MOVING else "elementwise"


def _opcodes(
    one: _Instruction, computations: Mapping[int, list[_Instruction]], visited: set[int]
) -> set[str]:
    """Return the opcodes of all that a fusion calls."""
    found: set[str] = set()
    for called in one.calls:
        if called in visited:
            continue
        visited.add(called)
        for inner in computations.get(called, ()):
            found |= _opcodes(inner, computations, visited) if inner.opcode == "fusion" else {inner.opcode}
    return found


def _computations(program: bytes) -> dict[int, list[_Instruction]]:
    module = next((message_of(value) for field, value in fields(program) if field == 1), b"")
    found = {}
    for field, value in fields(module):
        if field == 3:
            parts = list(fields(message_of(value)))
            number = next((part for key, part in parts if key == 5), 0)
            found[int(number)] = [_instruction(message_of(part)) for key, part in parts if key == 2]
    return found


def _instruction(message: bytes) -> _Instruction:
    parts = list(fields(message))
    name, opcode = (next((text_of(part) for key, part in parts if key == index), "") for index in (1, 2))
    calls = tuple(number for key, part in parts if key == 38 for number in numbers(part))
    return _Instruction(name, opcode, calls)
