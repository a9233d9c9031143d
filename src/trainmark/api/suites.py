"""Suites as objects: ``trainmark.Suite``."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from trainmark.schema.case import Case
from trainmark.schema.suite import Suite as SuiteDocument


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as resolved: its cases, and everything that their runs need.

    Example::

        suite = trainmark.Suite.read("suites/demo.yaml")
        suite = trainmark.Suite.of({"name": "mine", "axes": {"batch_per_device": [32, 64]}})
        [case.id for case in suite.cases]
    """

    document: SuiteDocument

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the suite in a YAML file; raise ``InputError`` naming file, line and key for a mistake in it."""
        from trainmark.cli.suite_input import read_suite

        return cls(read_suite(Path(path)))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the suite of a mapping with the keys of a suite's file; relative paths are from the current folder.

        Raises ``InputError`` naming the key for a mistake in it.
        """
        from trainmark.suite import parse_suite

        return cls(parse_suite(yaml.safe_dump(dict(values), sort_keys=False), "suite"))

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self.document.name

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases in the order of the suite, one for each point of its matrix."""
        return self.document.cases

    def to_yaml(self) -> str:
        """Return the resolved suite as YAML that ``read`` reads back."""
        from trainmark.suite import dump_suite

        return dump_suite(self.document)
