"""Did two frameworks do the same training step? What goes into each, what came out, and the certificate."""

from trainmark.equivalence.certificate import Certificate, Check, Pair, Party, Subject
from trainmark.equivalence.comparing import certify, compare, party
from trainmark.equivalence.inputs import worker_flags, write_inputs
from trainmark.equivalence.observation import Observation
from trainmark.equivalence.render import render_certificate

__all__ = [
    "Certificate",
    "Check",
    "Observation",
    "Pair",
    "Party",
    "Subject",
    "certify",
    "compare",
    "party",
    "render_certificate",
    "worker_flags",
    "write_inputs",
]
