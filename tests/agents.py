"""Hosts behind real agents on this machine: a stand-in for ``ssh`` starts them here, without a network between."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from trainmark.node import RemoteHost
from trainmark.schema.hosts import EngineName, HostEntry, SshSettings

STAND_IN = """#!/bin/sh
# In the place of ssh: the command, from another folder, after what a login shell might print.
for last; do :; done
case "$*" in
  *refused*) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255;;
  *silent*) exit 0;;
esac
echo "Welcome to this machine"
# Each is a machine of its own, unless a test says otherwise.
: "${TRAINMARK_MACHINE:=$$}"; export TRAINMARK_MACHINE
cd /
exec sh -c "$last"
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in first on the path."""
    place = folder / "stand-in"
    place.mkdir(exist_ok=True)
    (place / "ssh").write_text(STAND_IN, encoding="utf-8")
    (place / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


def agent_host(name: str, folder: Path | None = None, **more: object) -> RemoteHost:
    """Return a host that is reached through an agent; its runs lie in ``folder``."""
    entry = HostEntry.model_validate(
        {"name": name, "address": "127.0.0.1", "python": sys.executable, "folder": folder, **more}
    )
    return RemoteHost(entry, EngineName.SSH, SshSettings())


def hosts_file(path: Path, *names: str, folder: Path) -> Path:
    """Write a hosts file whose hosts keep their runs in folders of their own."""
    lines = [f"python: {shlex.quote(sys.executable)}", "hosts:"]
    lines += [f"  - {{name: {name}, address: 127.0.0.1, folder: {folder / name}}}" for name in names]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
