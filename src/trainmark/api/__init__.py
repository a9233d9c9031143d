"""The library behind ``import trainmark``: functions and classes over the rooms (docs/reference/library.md, ADR 0048).

The public names are those of ``trainmark.__all__``, which imports them from here on first use.
"""
