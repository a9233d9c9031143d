"""Read a suite, with the line of each unknown name in it, and connect the hosts of ``--hosts``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.documents import read_document
from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.resolving import ENGINES
from trainmark.errors import InputError, nearest
from trainmark.schema.names import COMMAND_SUITE, SUITE
from trainmark.schema.suite import EACH_ITS_OWN, Suite
from trainmark.suite import load_suite
from trainmark.workload import NoCardError

if TYPE_CHECKING:
    from trainmark.node import Host


def read_suite(path: Path) -> Suite:
    """Return the suite in ``path``; raise ``InputError`` for an invalid suite, an invalid card or an unknown name.

    The names are those of workloads, of their frameworks, and of the environment.
    """
    if path.is_dir():
        suites = [name for name in (COMMAND_SUITE, SUITE) if (path / name).is_file()]
        example = f"; this result directory has {path / suites[0]}" if suites else ""
        raise InputError(f"{path}: is a folder; give the suite's file{example}")
    try:
        suite = load_suite(path)
    except InputError:
        # A suite takes values from its cards: report their mistakes where they are.
        _check_cards(path)
        raise
    from trainmark.campaign import load_programs  # not imported for a log alone

    workloads = load_programs(suite)
    for case in {(case.workload, case.framework): case for case in suite.cases}.values():
        try:
            workloads.find(case)
        except NoCardError as error:
            document = read_document(path)
            raise document.error(document.find(error.axis, case.value(error.axis)), str(error)) from None
    requested = suite.environment
    names = {"": requested} if isinstance(requested, str) else requested
    for framework, name in names.items():
        if name not in (EACH_ITS_OWN, SYSTEM, *ENGINES) and os.sep not in name:
            try:
                find_entry(name)
            except InputError as error:
                key = ("environment", framework) if framework else ("environment",)
                raise read_document(path).error(key, str(error)) from None
    return suite


def _check_cards(path: Path) -> None:
    """Raise ``InputError`` for the mistakes in the cards of a suite that cannot be read itself."""
    from trainmark.campaign import program_mistakes
    from trainmark.workload import load_workloads

    values = read_document(path).values
    cards = values.get("cards") if isinstance(values, dict) else None
    files = [path.resolve().parent / card for card in cards or () if isinstance(card, str)]
    load_workloads([file for file in files if file.is_file()], (program_mistakes,))


@contextmanager
def chosen_hosts(given: str | None, engine: str | None) -> "Iterator[tuple[Host, ...]]":
    """Yield the hosts in their order (by default this machine only), and close their connections at the end.

    Raises ``InputError`` for an invalid hosts file or an unknown engine. A host that cannot be reached is included;
    it reports the reason when it is used.
    """
    from trainmark.node import LocalHost, RemoteHost, connect_hosts, map_hosts
    from trainmark.schema.hosts import EngineName
    from trainmark.suite import load_hosts

    if engine is not None and engine not in set(EngineName):
        raise InputError(
            f"--engine {engine}: unknown engine{nearest(engine, EngineName)} ({', '.join(EngineName)})"
        )
    if given is None:
        if engine is not None:
            raise InputError(f"--engine {engine}: add --hosts; without it only this machine is used")
        yield (LocalHost(),)
        return
    hosts = connect_hosts(load_hosts(given, os.environ, None if engine is None else EngineName(engine)))
    try:
        yield hosts
    finally:
        map_hosts([host for host in hosts if isinstance(host, RemoteHost)], RemoteHost.close)
