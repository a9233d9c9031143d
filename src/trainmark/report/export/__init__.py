"""Exports of results to other tools, each through that tool's own library (docs/how-to/exports.md).

No module of a format is imported before it is needed: each needs a library of an extra of its own.
"""

from trainmark.report.export.formats import EXPORTERS, ExportFormat, export, find_format

__all__ = ["EXPORTERS", "ExportFormat", "export", "find_format"]
