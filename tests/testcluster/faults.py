"""What goes wrong on purpose, and holds until `heal`. All is done from outside, by entering the host's namespaces."""

import shlex
import subprocess
import sys
from collections.abc import Callable

from testcluster.entering import Entrance
from testcluster.layout import CONTROL, TASK_VARIABLES

SLOWER = """\
import os, signal, sys, time
share, period_s = 1 / float(sys.argv[1]), 0.05
# A stopped sshd is one that ends: what it may call in its sandbox does not include going on.
DAEMONS = (b"(sshd)", b"(munged)", b"(slurmd)", b"(slurmstepd)")
stopped = []

def send(number, what):
    try:
        os.kill(number, what)
    except ProcessLookupError:
        pass

def stop():
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open("/proc/" + number + "/stat", "rb").read()
        except OSError:
            continue
        state, parent = stat[stat.rindex(b")") + 2:].split()[:2]
        # Whom somebody else has stopped is not to be continued; who came from outside has there a parent
        # that stops with it for good.
        kept = int(number) in (1, os.getpid()) or state == b"T" or parent == b"0"
        if not kept and not any(name in stat for name in DAEMONS):
            stopped.append(int(number))
            send(int(number), signal.SIGSTOP)

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
open("/run/slower.pid", "w").write(str(os.getpid()))
print("slow", flush=True)
try:
    while True:
        time.sleep(period_s * share)
        stop()
        time.sleep(period_s * (1 - share))
        while stopped:
            send(stopped.pop(), signal.SIGCONT)
finally:
    for number in stopped:
        send(number, signal.SIGCONT)
    os.unlink("/run/slower.pid")
"""

WRONG_CLOCK = "/usr/$LIB/faketime/libfaketime.so.1"


def delay(at: Entrance, host: str, milliseconds: float = 50) -> None:
    """What the host sends is late by so many milliseconds (50)."""
    _bad_line(at, host, milliseconds / 1000, 0.0)


def loss(at: Entrance, host: str, percent: float = 1) -> None:
    """Of what the host sends so many percent (1) are lost."""
    _bad_line(at, host, 0.0, percent / 100)


def cut(at: Entrance, host: str) -> None:
    """The host's cable is pulled."""
    _shell(at, CONTROL, f"ip link set {host} down")


def slow(at: Entrance, host: str, times: float = 3) -> None:
    """What ssh and Slurm have started on the host takes so many times (3) as long: of 50 ms it is stopped the rest."""
    _usual_speed(at, host)
    _background(at, host, "/opt/trainmark/bin/python", "-I", "-S", "-c", SLOWER, str(times))


def clock(at: Entrance, host: str, seconds: float = 90) -> None:
    """What ssh, mpirun and Slurm start on the host from now on sees a clock that is wrong by so many seconds (90)."""
    # Time namespaces do not move this clock, and the daemons themselves do not live with another.
    _shell(
        at,
        host,
        f"echo '{seconds:+g}' > /etc/faketimerc; echo 'export LD_PRELOAD={WRONG_CLOCK}' > {TASK_VARIABLES}",
    )
    _answer(at, host, f"SetEnv=LD_PRELOAD={WRONG_CLOCK}")


def refuse(at: Entrance, host: str) -> None:
    """The host refuses new ssh connections; those that stand stay."""
    _shell(at, host, "p=$(cat /run/sshd.pid) && kill $p && while kill -0 $p; do sleep 0.02; done; true")


def key(at: Entrance, host: str) -> None:
    """The host answers with a key that nobody knows."""
    _shell(at, host, "test -f /run/key || ssh-keygen -q -t ed25519 -N '' -f /run/key")
    _answer(at, host, "HostKey=/run/key")


def full(at: Entrance, host: str) -> None:
    """The host's disk has no byte left."""
    _shell(at, host, "dd if=/dev/zero of=/full bs=1M; dd if=/dev/zero of=/full.rest bs=4k; true")


def heal(at: Entrance, host: str) -> None:
    """All is well again; only what has started under a wrong clock keeps it."""
    _good_line(at, host)
    _usual_speed(at, host)
    _shell(at, host, f"rm -f {TASK_VARIABLES} /etc/faketimerc /full /full.rest /dev/shm/*faketime_*")
    _answer(at, host)


FAULTS: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (delay, loss, cut, slow, clock, refuse, key, full, heal)
}


def _answer(at: Entrance, host: str, *options: str) -> None:
    """Let the host take new ssh connections, with other options than its own."""
    refuse(at, host)
    _shell(
        at,
        host,
        shlex.join(["/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config", *(f"-o{each}" for each in options)]),
    )


def _bad_line(at: Entrance, host: str, delay_s: float, lost: float) -> None:
    _good_line(at, host)
    _shell(
        at,
        CONTROL,
        f"ip link add {host}-in type veth peer name {host}-out && ip link set {host}-in up &&"
        f" ip link set {host}-out master br0 up && ip link set {host} nomaster",
    )
    _background(at, CONTROL, *at.again("line", host, f"{host}-in", str(delay_s), str(lost)))


def _good_line(at: Entrance, host: str) -> None:
    # The line ends with its card.
    _shell(at, CONTROL, f"ip link delete {host}-in 2>/dev/null; ip link set {host} master br0 up")


def _usual_speed(at: Entrance, host: str) -> None:
    _shell(
        at,
        host,
        "! test -f /run/slower.pid || kill $(cat /run/slower.pid); while test -f /run/slower.pid; do sleep 0.02; done",
    )


def _shell(at: Entrance, place: str, line: str) -> None:
    done = subprocess.run(
        [*at.words(place), "sh", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{place}: {line}: {done.stderr.strip()}")


def _background(at: Entrance, place: str, *words: str) -> None:
    """Start what goes on by itself, and wait for its first line."""
    log = at.layout.log("faults")
    with log.open("ab") as errors:
        started = subprocess.Popen(
            [*at.words(place), "setsid", "--fork", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert started.stdout is not None
    if not started.stdout.readline() or started.wait():
        sys.exit(f"{place}: {words[0]} did not start: see {log}")
