"""The equivalence certificates in a result directory."""

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from trainmark.schema.certificate import Certificate

FOLDER = "equivalence"
CERTIFICATE = "certificate.json"

SAVED = "certificates"
"""The folder of trainmark's home for the certificates of all suites, by their basis."""


def stored_certificates(out: Path) -> tuple[Certificate, ...]:
    """Return the certificates in a result directory."""
    found = (read_certificate(path) for path in sorted((out / FOLDER).glob(f"*/{CERTIFICATE}")))
    return tuple(certificate for certificate in found if certificate is not None)


def read_certificate(path: Path) -> Certificate | None:
    """Return a certificate; None if it is missing or this version cannot read it."""
    with suppress(OSError, ValidationError):
        return Certificate.model_validate_json(path.read_bytes())
    return None
