"""The process that the tests copy: when it dies, what waits for it fails at once and says so."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from preloading import Preload, Preloaded


def test_waiting_for_a_copy_ends_when_the_preloading_process_is_gone(tmp_path: Path) -> None:
    copies = Preloaded(sys.executable, Preload((), {}, before=""))
    copy = copies.start(
        ["sleeps"], {}, tmp_path, "import os, time\nprint(os.getppid(), flush=True)\ntime.sleep(60)"
    )
    began = time.monotonic()
    try:
        os.kill(int(copy.stdout.readline()), signal.SIGKILL)
        assert copy.wait(timeout=30) == -signal.SIGKILL
        with pytest.raises((AssertionError, OSError)):
            copies.start(["more"], {}, tmp_path, "pass")
        assert time.monotonic() - began < 30
    finally:
        os.kill(copy.pid, signal.SIGKILL)
        copy.stdout.close()
        copy.stderr.close()
