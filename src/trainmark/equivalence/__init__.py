"""Did two frameworks do the same training step? What goes into each, what came out, and the certificate."""

from trainmark.equivalence.comparing import certify, compare, follows, party
from trainmark.equivalence.inputs import equal_work_of, worker_flags, write_inputs
from trainmark.equivalence.render import render_certificate
from trainmark.words.certificate import Certificate, Check, Pair, Party, Subject, Variant
from trainmark.words.observation import Followed, Observation

__all__ = [
    "Certificate",
    "Check",
    "Followed",
    "Observation",
    "Pair",
    "Party",
    "Subject",
    "Variant",
    "certify",
    "compare",
    "equal_work_of",
    "follows",
    "party",
    "render_certificate",
    "worker_flags",
    "write_inputs",
]
