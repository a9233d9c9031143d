"""A host of its own for tests: this machine's processes, on a disk that is not this machine's."""

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmark.node import Job, LocalHost, Paths
from trainmark.schema.plan import Command, NodeResources

FOUR_CORES = NodeResources(cores=4, gpus=0)


class OtherDisk(LocalHost):
    """This machine under another name, which has the folder ``there`` under the same path, on another disk.

    What its jobs are told of that path is the folder ``disk`` here, as a mount would have it; what this process looks
    at under the path without asking the host is another folder.
    """

    def __init__(self, name: str, there: Path, disk: Path, paths: Paths = ()) -> None:
        super().__init__(name, machine=FOUR_CORES, paths=paths)
        self._there, self._disk = there, disk

    def has(self, path: Path) -> bool:
        return super().has(self._found(path))

    def read(self, path: Path) -> bytes | None:
        return super().read(self._found(path))

    def digests(self, path: Path) -> Mapping[str, str]:
        return super().digests(self._found(path))

    def put(self, path: Path, content: bytes) -> None:
        super().put(self._found(path), content)

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        super().get(self._found(folder), into, without)

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        super().remove(self._found(path), without)

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        with super().locked(self._found(path)):
            yield

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        folder = self._there / "scratch"
        self._found(folder).mkdir(parents=True)
        yield folder
        shutil.rmtree(self._found(folder))

    def start(self, job: Job) -> int:
        return super().start(
            replace(
                job,
                commands=tuple(self._relocated(command) for command in job.commands),
                directory=self._found(job.directory),
                log=self._found(job.log),
                errors=None if job.errors is None else self._found(job.errors),
                signs=tuple(map(self._found, job.signs)),
                telemetry=None if job.telemetry is None else self._found(job.telemetry),
            )
        )

    def _found(self, path: Path) -> Path:
        return self._disk / path.relative_to(self._there) if path.is_relative_to(self._there) else path

    def _relocated(self, command: Command) -> Command:
        words: Any = tuple(word.replace(str(self._there), str(self._disk)) for word in command.words)
        variables = {
            name: value.replace(str(self._there), str(self._disk))
            for name, value in command.variables.items()
        }
        return replace(command, words=words, variables=variables)
