"""Optional dependencies: one sentence names the extra that installs a missing library."""

from importlib import import_module
from types import ModuleType

from trainmark.errors import InputError


class MissingExtraError(InputError):
    """A library of an extra is not installed; the message has the command that installs it."""


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Return an optional module; raise ``MissingExtraError`` with ``purpose`` and the extra if it is not installed.

    ``purpose`` is the subject of the sentence, such as ``a pandas frame``.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        if missing == "trainmark":
            raise
        raise MissingExtraError(
            f"{purpose} needs {missing}, which is not installed: pip install 'trainmark[{extra}]'"
        ) from None
