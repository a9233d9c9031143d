"""The check that frameworks do the same training step: its inputs, the comparison, and the certificate."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.equivalence.comparing import Reference, certify, compare, compare_golden, follows, party
    from trainmark.equivalence.golden import (
        digest_inputs,
        golden_bytes,
        golden_document,
        golden_of,
        golden_path,
        golden_rounding,
        has_golden,
    )
    from trainmark.equivalence.inputs import equal_work_of, worker_flags, write_inputs
    from trainmark.equivalence.render import render_certificate
    from trainmark.equivalence.rounding import compare_rounded, follows_rounded

__all__ = [
    "Reference",
    "certify",
    "compare",
    "compare_golden",
    "compare_rounded",
    "digest_inputs",
    "equal_work_of",
    "follows",
    "follows_rounded",
    "golden_bytes",
    "golden_document",
    "golden_of",
    "golden_path",
    "golden_rounding",
    "has_golden",
    "party",
    "render_certificate",
    "worker_flags",
    "write_inputs",
]

__getattr__ = attach(
    __name__,
    {
        ".comparing": ("Reference", "certify", "compare", "compare_golden", "follows", "party"),
        ".golden": (
            "digest_inputs",
            "golden_bytes",
            "golden_document",
            "golden_of",
            "golden_path",
            "golden_rounding",
            "has_golden",
        ),
        ".inputs": ("equal_work_of", "worker_flags", "write_inputs"),
        ".render": ("render_certificate",),
        ".rounding": ("compare_rounded", "follows_rounded"),
    },
)
