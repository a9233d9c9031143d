"""The first process of a host, or of the control place: it furnishes the place, starts its daemons, and reaps.

It runs in namespaces of its own (mounts, processes, network, host name). When it ends, the kernel ends all in them.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from testcluster.files import SSHD, etc_hosts, ssh_defaults
from testcluster.layout import CONTROL, TRAINMARK, Layout, Python, Shared

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def live(layout: Layout, name: str, python: Python, shared: tuple[Shared, ...], megabytes: int) -> None:
    """Be a place of the cluster until killed; what is ready is said on stdout, what may begin is heard on stdin."""
    # The file system of processes is still the machine's, and names this process by its outer number.
    _say(str(Path("/proc/self").readlink()))
    _hear()
    socket.sethostname(name)
    with layout.log(name).open("ab", buffering=0) as log:
        if name == CONTROL:
            _become_control(layout, log.fileno())
        else:
            _become_host(layout, name, python, shared, megabytes, log.fileno())
    _say("ready")
    sys.stdin.close()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(3600)  # A host without a daemon left is still a host.


def _become_control(layout: Layout, log: int) -> None:
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "--bind", layout.folder / "etc_hosts", "/etc/hosts")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{layout.address(CONTROL)}/24", "dev", "br0")
    _munged(layout, log)
    _daemon(["slurmctld", "-D", "-f", layout.slurm / "slurm.conf"], log)


def _become_host(
    layout: Layout, name: str, python: Python, shared: tuple[Shared, ...], megabytes: int, log: int
) -> None:
    _furnish(layout, name, python, shared, megabytes)
    _enter(layout.tree(name))
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{layout.address(name)}/24", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    _munged(layout, log)
    # sshd that resets every connection is one that was not started by an absolute path.
    _daemon(["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"], log)
    _daemon(["slurmd", "-D", "-N", name, "-f", layout.slurm / "slurm.conf"], log)
    _until(lambda: _listening(layout.address(name), 22), f"sshd of {name}")


def _furnish(layout: Layout, name: str, python: Python, shared: tuple[Shared, ...], megabytes: int) -> None:
    """Mount a host's root: its own files on a disk of its own, the machine's programs read-only."""
    root = layout.tree(name)
    _run("mount", "-t", "tmpfs", "-o", f"mode=755,size={megabytes}m", name, root)
    for folder in ("dev/pts", "dev/shm", "proc", "sys", "run/sshd", "home", "root/.ssh", "opt", "old"):
        (root / folder).mkdir(parents=True)
    for folder in ("var/log", "var/lib/munge", "var/spool/slurmd"):
        (root / folder).mkdir(parents=True)
    for folder in ("tmp", "var/tmp"):
        (root / folder).mkdir()
        (root / folder).chmod(0o1777)
    for entry in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if (there := Path("/") / entry).is_symlink():
            (root / entry).symlink_to(there.readlink())
        elif there.is_dir():
            _bind(there, root / entry)
    _bind(Path("/usr"), root / "usr")
    if not python.base.is_relative_to("/usr"):
        _bind(python.base, _within(root, python.base))
    for each in shared:
        _bind(each.source, _within(root, each.target))
    _run("mount", "-t", "proc", "proc", root / "proc")
    _run("mount", "-t", "sysfs", "sysfs", root / "sys")
    _run("mount", "--rbind", "/sys/fs/cgroup", root / "sys/fs/cgroup")
    for device in DEVICES:
        (root / "dev" / device).touch()
        _run("mount", "--bind", f"/dev/{device}", root / "dev" / device)
    _run("mount", "-t", "tmpfs", "-o", f"mode=1777,size={megabytes}m", "shm", root / "dev/shm")
    _run("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", root / "dev/pts")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
    ):
        (root / "dev" / link).symlink_to(target)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore=shutil.ignore_patterns("ssh_host_*"))
    _write_own(layout, name, python, root)


def _write_own(layout: Layout, name: str, python: Python, root: Path) -> None:
    """Write what a host has for itself: name, keys, an ssh that reaches the others, trainmark under its own path."""
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / "etc/hosts").write_text(etc_hosts(layout))
    for outdated in ("resolv.conf", "ld.so.preload"):
        (root / "etc" / outdated).unlink(missing_ok=True)
    (root / "etc/ssh/sshd_config").write_text(SSHD)
    shutil.copy(layout.folder / "keys" / name, root / "etc/ssh/ssh_host_ed25519_key")
    shutil.copy(layout.folder / "keys/user", root / "root/.ssh/id_ed25519")
    shutil.copy(layout.folder / "keys/user.pub", root / "root/.ssh/authorized_keys")
    shutil.copy(layout.folder / "known_hosts", root / "root/.ssh/known_hosts")
    defaults = ssh_defaults(Path("/root/.ssh/id_ed25519"), Path("/root/.ssh/known_hosts"))
    # What `control` tells mpirun of its ssh, srun carries to the hosts.
    _within(root, layout.folder).mkdir(parents=True)
    for config in (root / "root/.ssh/config", _within(root, layout.folder) / "ssh_config"):
        config.write_text(f"Host *\n{defaults}")
    (root / "root/.ssh").chmod(0o700)
    slurm = _within(root, layout.slurm)
    slurm.mkdir(parents=True)
    for file in ("slurm.conf", "cgroup.conf", "munge.key", "task_prolog"):
        shutil.copy(layout.slurm / file, slurm / file)
    there = _within(root, TRAINMARK)
    packages = there / "lib" / python.version / "site-packages"
    packages.mkdir(parents=True)
    (there / "bin").mkdir()
    (there / "bin/python").symlink_to(python.executable)
    (there / "pyvenv.cfg").write_text(f"home = {python.executable.parent}\n")
    (packages / "trainmark.pth").write_text(f"{TRAINMARK}/packages\n{TRAINMARK}/source\n")
    _bind(python.packages, there / "packages")
    _bind(python.source, there / "source")


def _enter(root: Path) -> None:
    """Make a folder this process's root, and forget the machine's."""
    os.chdir(root)
    _run("pivot_root", ".", "old")
    os.chroot(".")
    os.chdir("/")
    _run("umount", "--lazy", "/old")
    Path("/old").rmdir()
    for name in [name for name in os.environ if name not in ("LANG", "PATH", "PYTHONPATH")]:
        del os.environ[name]
    os.environ.update(HOME="/root", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def _munged(layout: Layout, log: int) -> None:
    folder = layout.slurm
    _daemon(
        [
            "munged", "--foreground", "--force", "--num-threads=1",
            f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed",
        ],
        log,
    )  # fmt: skip
    _until((folder / "munge.socket").is_socket, "munged")


def _daemon(words: list[str | Path], log: int) -> None:
    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _bind(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _run("mount", "--rbind", source, target)
    _run("mount", "-o", "remount,bind,ro", target)


def _within(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _listening(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def _until(holds: object, what: str, seconds: float = 30) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what} does not answer within {seconds:.0f} s")
        time.sleep(0.02)


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def _say(line: str) -> None:
    print(line, flush=True)


def _hear() -> None:
    if not sys.stdin.readline():
        sys.exit(1)
