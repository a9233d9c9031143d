"""How to change one axis so that a difference can be tested: the program's flag and trainmark's suite axis."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field

from trainmark.insight.recipe import AnyAxis, Place, Recipe
from trainmark.reference import Axis


@dataclass(frozen=True, slots=True)
class Change:
    """What to change for a test: the program's ``flag`` and a line of a suite; none where there is no way."""

    program: str | None = None
    flag: str | None = None
    suite: str | None = None


class Program(BaseModel):
    """A known training program: its flags by axis, and its own words for some of trainmark's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    flags: Mapping[str, str]
    values: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)


class Programs(BaseModel):
    """All known programs by their short name, and the axes that a suite of trainmark has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = Field(alias="schema")
    suite: tuple[str, ...]
    programs: Mapping[str, Program]

    def change(self, axis: AnyAxis, run: Recipe, reference: Recipe) -> Change:
        """Return how to give the run's ``axis`` the reference's value, the run being otherwise as it was."""
        here, there = run.value(axis), reference.value(axis)
        suite = f"{axis.value}: [{here}, {there}]" if axis.value in self.suite else None
        program = self.programs.get(run.program or "")
        if program is None or axis.value not in program.flags:
            return Change(None, None, suite)
        word = str(there)
        word = program.values.get(axis.value, {}).get(word, word)
        flag = program.flags[axis.value]
        if "{optimizer_batch_size}" in flag:
            size = _optimizer_batch_size(run, reference)
            return (
                Change(program.name, flag.format(optimizer_batch_size=size), suite)
                if size
                else Change(suite=suite)
            )
        if axis is Axis.CHECKPOINT_IN_RUN and there is not False:
            return Change(suite=suite)
        return Change(program.name, flag.format(value=word), suite)


def _optimizer_batch_size(run: Recipe, reference: Recipe) -> int | None:
    factors = [
        run.value(Place.BATCH_PER_DEVICE),
        run.value(Place.DEVICES),
        reference.value(Axis.ACCUMULATION_STEPS),
    ]
    if not all(isinstance(factor, int) for factor in factors):
        return None
    batch, devices, steps = (int(factor) for factor in factors if factor is not None)
    return batch * devices * steps


@cache
def load_programs() -> Programs:
    """Return the programs that come with trainmark."""
    text = (files("trainmark.insight") / "evidence" / "programs.yaml").read_text(encoding="utf-8")
    return Programs.model_validate(yaml.safe_load(text))
