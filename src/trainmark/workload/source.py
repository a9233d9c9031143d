"""The source of a training program: the built-in worker, a local folder, or one commit of a repository."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from trainmark.schema.frozen import Frozen

_ADDRESS = re.compile(r"(https://[\w.-]+(:\d+)?/|ssh://([\w.-]+@)?[\w.][\w.-]*(:\d+)?/|file:///)[^\s'\"]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(text: str) -> bool:
    """Return whether ``text`` is a full commit hash: 40 hexadecimal digits."""
    return _COMMIT.fullmatch(text) is not None


def _is_address(value: str) -> str:
    # Git runs programs for other schemes (ext::), and a password would be in every plan and result.
    if not _ADDRESS.fullmatch(value):
        raise ValueError("should be an https://, ssh:// or file:/// address without a password")
    return value


def _is_commit(value: str) -> str:
    if not is_commit(value):
        raise ValueError("should be a whole commit, 40 hexadecimal digits; a branch or a tag can move")
    return value


def _is_relative_folder(value: str) -> str:
    if value.startswith("/") or ".." in value.split("/"):
        raise ValueError("should be a folder inside the repository")
    return value


def _is_no_pattern(value: str) -> str:
    if value.startswith((":", "-")) or set("*?[\\") & set(value):
        raise ValueError("should be a file or folder of the repository, not a pattern")
    return value


_PathInRepository = Annotated[str, StringConstraints(min_length=1), AfterValidator(_is_relative_folder)]
_PathOfFiles = Annotated[_PathInRepository, AfterValidator(_is_no_pattern)]


class BuiltinSource(Frozen):
    """trainmark's own worker, started as ``PYTHON worker/start.py``."""

    kind: Literal["builtin"]


class FolderSource(Frozen):
    """A program in a folder of this machine; a relative path counts from the card's own file.

    ``ignore`` are patterns (``out/*``) of files that the program writes; they are not part of the program.
    """

    kind: Literal["folder"]
    path: str
    ignore: tuple[str, ...] = ()


class GitSource(Frozen):
    """A program in one commit of a git repository, unmodified; ``folder`` is its path in the tree.

    With ``paths``, only these files and folders of it are fetched, and are in the working tree.
    A case may name another commit than the card, and must name one if the card does not, as its option ``commit``.
    Submodules are not fetched.
    """

    kind: Literal["git"]
    url: Annotated[str, AfterValidator(_is_address)]
    commit: Annotated[str, AfterValidator(_is_commit)] | None = None
    folder: _PathInRepository = "."
    paths: tuple[_PathOfFiles, ...] = ()


class FilesSource(Frozen):
    """A program that runs where it is; ``files`` are those that identify it, relative to the card's own file.

    Nothing is copied: the files must be on every host.
    """

    kind: Literal["files"]
    files: tuple[str, ...] = ()


Source = Annotated[BuiltinSource | FilesSource | FolderSource | GitSource, Field(discriminator="kind")]
