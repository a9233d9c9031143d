"""Log formats that are described as data: one YAML file a format (``docs/how-to/describe-a-log.md``)."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.logs.description.build import build_format
    from trainmark.logs.description.document import (
        FormatDescription,
        described_in,
        parse_description,
        read_description,
    )
    from trainmark.logs.description.examples import Example, parse_example

__all__ = [
    "Example",
    "FormatDescription",
    "build_format",
    "described_in",
    "parse_description",
    "parse_example",
    "read_description",
]

__getattr__ = attach(
    __name__,
    {
        ".build": ("build_format",),
        ".document": ("FormatDescription", "described_in", "parse_description", "read_description"),
        ".examples": ("Example", "parse_example"),
    },
)
