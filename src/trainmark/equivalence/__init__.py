"""Did two frameworks do the same training step? What goes into each, what came out, and the certificate."""

from trainmark.equivalence.comparing import certify, compare, follows, party
from trainmark.equivalence.inputs import worker_flags, write_inputs
from trainmark.equivalence.observation import Followed, Observation
from trainmark.equivalence.render import render_certificate
from trainmark.words.certificate import Certificate, Check, Pair, Party, Subject, Variant

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
    "follows",
    "party",
    "render_certificate",
    "worker_flags",
    "write_inputs",
]
