"""Fixtures of all rooms; what they need is imported when a test asks for it."""

import gc
import hashlib
import os
import re
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from fakes import Bench


# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("trainmark", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For make check, which is run often: what fails rarely is found by the many runs of it, and by make test.
settings.register_profile("quick", settings.get_profile("trainmark"), max_examples=20)
settings.load_profile("trainmark")


LONGEST_FIRST = (
    "cluster",
    "worker-jax",
    "worker-pytorch",
    "worker-tensorflow",
    "worker-mindspore",
    "worker-mxnet",
    "worker-paddle",
    "equal-work",
)
"""The groups that one process each works off, and that would else be waited for at the end."""


MARKED_BY_FIXTURE = {"views": "browser"}
"""The markers of tests that take a fixture: ``views`` are those of a browser."""

SLOW = frozenset((Path(__file__).parent / "slow_tests.txt").read_text(encoding="utf-8").split())
"""Test functions that ``make check`` leaves to ``make test`` (``scripts/slow_tests.py``)."""

RARE_UNTIL = "TRAINMARK_RARE_UNTIL"
"""The variable with the time (seconds since 1970) after which no rare test starts: CI ends in time on any CPU."""

RARE_ORDER = "TRAINMARK_RARE_ORDER"
"""The variable with a word that decides the order of the rare tests: another word, and others are left out."""

_LEFT_OUT = re.compile(r"not (\w+)(?: and |$)")
"""The markers of an expression like that of ``make check``: ``not training and not cluster``."""

_OF_FILE = re.compile(r"^pytestmark = (?:\[\n(?: .*\n)+\]|.*)", re.MULTILINE)
"""The statement that marks all tests of a file."""

_failed: list[str] = []
"""The tests of this run that failed, in their order."""


def pytest_configure() -> None:
    """Refuse to skip the tests of frameworks that must be there, and let signals be tested wherever this runs.

    A shell that starts a command in the background has it ignore SIGINT, ``nohup`` SIGHUP, and children inherit that.
    A signal that is caught is not ignored by children: so a hang-up still does not end the tests.
    """
    # Only on CPUs with AVX-512 does TensorFlow use oneDNN unasked, without which it computes no NCHW on a CPU.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # The threads of a product of small matrices wait for each other in loops, which takes the cores from other tests.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A thread that spins while the others of its training wait for a core takes five times the CPU.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Most objects are those of thousands of tests, which stay: looking for unreachable ones took a tenth of the time.
    gc.set_threshold(20_000, 20, 20)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or "PYTEST_XDIST_WORKER" in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: None)
    from frameworks import what_is_required_and_missing

    if missing := what_is_required_and_missing():
        raise pytest.UsageError(missing)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file if ``-m`` excludes a marker of all its tests: it need not be imported."""
    expression = str(config.getoption("markexpr"))
    if collection_path.suffix != ".py" or _LEFT_OUT.sub("", expression):
        return None
    marked = _OF_FILE.search(collection_path.read_text(encoding="utf-8"))
    left_out = marked and any(f"mark.{name}" in marked[0] for name in _LEFT_OUT.findall(expression))
    # None: others decide.
    return left_out or None


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Put each file's tests into one group for ``--dist loadgroup``, and the groups that take longest first.

    Tests of one file share what its fixtures have made; those that train name their group themselves. Groups are marked
    before pytest-xdist writes them into the names of the tests, and sorted after pytest has sorted the parameters.
    """
    for item in items:
        for fixture, marker in MARKED_BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker("slow")
        file, group = item.nodeid.partition("::")[0], _group(item)
        if group is None:
            item.add_marker(pytest.mark.xdist_group(file))
        elif item.get_closest_marker("rare") and group.startswith(("worker-", "equal-work")):
            # pytest-xdist joins the names of an item's groups: one process need not work off all rare tests.
            item.add_marker(pytest.mark.xdist_group(f"rare-{file}"))
    result = yield
    # Sorting is stable: within a group the order stays.
    items.sort(key=_place_in_line)
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run side by side with a pytest that loses the groups: every fixture would be made in every process."""
    gc.freeze()
    if session.config.getoption("loadgroup", False):
        alone = [item.nodeid for item in session.items if "@" not in item.nodeid]
        if alone:
            raise pytest.UsageError(
                f"pytest {pytest.__version__} loses the group of {alone[0]}: see pyproject.toml"
            )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure when it happens: a run that is ended from outside never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        _failed.append(report.nodeid)
        last = report.longreprtext.strip().splitlines()[-12:]
        sys.stdout.write("\n    ".join((f"\n{report.when} of {report.nodeid} failed:", *last, "")))
        sys.stdout.flush()


def pytest_sessionfinish(exitstatus: int) -> None:
    """List in ``$TRAINMARK_FAILED_TESTS`` which tests failed of those that were all run, for ``make test-again``."""
    report = os.environ.get("TRAINMARK_FAILED_TESTS")
    if report and exitstatus == pytest.ExitCode.TESTS_FAILED and "PYTEST_XDIST_WORKER" not in os.environ:
        # Behind a test's own name pytest-xdist has its group.
        names = {re.sub(r"@[^\]]*$", "", nodeid) for nodeid in _failed}
        Path(report).write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out the rare tests for which there is no time any more; the summary counts them, with this reason."""
    until = os.environ.get(RARE_UNTIL)
    if until and item.get_closest_marker("rare") and time.time() > float(until):
        pytest.skip(f"rare, and the time for rare tests is over (${RARE_UNTIL})")


def _group(item: pytest.Item) -> str | None:
    group = item.get_closest_marker("xdist_group")
    return None if group is None else str(group.args[0])


def _place_in_line(item: pytest.Item) -> tuple[int, str]:
    """Return a key that puts the groups that take longest first and rare tests last, in the order of a word."""
    name = _group(item)
    assert name is not None
    if item.get_closest_marker("rare"):
        order = f"{os.environ.get(RARE_ORDER, '')} {item.nodeid.partition('::')[0]}"
        return len(LONGEST_FIRST) + 2, hashlib.sha256(order.encode()).hexdigest()
    if name in LONGEST_FIRST:
        return LONGEST_FIRST.index(name), ""
    return len(LONGEST_FIRST) + (item.get_closest_marker("training") is None), ""


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> "Bench":
    """Return a folder for a suite of fake programs, which are processes where the test is marked so."""
    from fakes import Bench

    return Bench(tmp_path, processes=request.node.get_closest_marker("process") is not None)
