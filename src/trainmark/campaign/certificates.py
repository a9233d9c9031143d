"""The certificates that a result directory keeps beside its runs."""

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from trainmark.schema.certificate import Certificate

FOLDER = "equivalence"
CERTIFICATE = "certificate.json"


def kept_certificates(out: Path) -> tuple[Certificate, ...]:
    """Return the certificates that lie in a result directory."""
    found = (read_certificate(path) for path in sorted((out / FOLDER).glob(f"*/{CERTIFICATE}")))
    return tuple(certificate for certificate in found if certificate is not None)


def read_certificate(path: Path) -> Certificate | None:
    """Return a certificate; None where there is none that this version can read."""
    with suppress(OSError, ValidationError):
        return Certificate.model_validate_json(path.read_bytes())
    return None
