"""Traces of framework profilers, reduced to the seconds of each kind of operation in a step."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.profiles.reduction import read_profile, trace_files

__all__ = ["read_profile", "trace_files"]

__getattr__ = attach(__name__, {".reduction": ("read_profile", "trace_files")})
