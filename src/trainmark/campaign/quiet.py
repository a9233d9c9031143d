"""Wait before a run until other processes leave the CPUs of its hosts alone."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.campaign.listener import ProgressListener
from trainmark.measure.gates import GATES
from trainmark.node import Heartbeat, Host, display_name, map_hosts
from trainmark.node.processes import parse_stat
from trainmark.node.telemetry import allowed_cpus
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.measurement import GateName

LOOK_S = 2.0
"""The seconds over which the load of the CPUs is measured."""

_STAT = Path("/proc/stat")


def quiet_bound() -> float:
    """Return the share of the CPUs below which a machine is quiet: the bound of the gate ``cpu-shared``."""
    return next(gate.bound for gate in GATES if gate.name is GateName.CPU_SHARED)


@dataclass(frozen=True, slots=True)
class QuietWait:
    """Wait at most ``minutes`` before each run; the run then starts in any case, and the gates judge it.

    ``sleep`` and ``now`` are the clock, in seconds.
    """

    minutes: float
    look_s: float = LOOK_S
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic

    def wait(self, hosts: Sequence[Host], listener: ProgressListener) -> None:
        """Return once the hosts are quiet, or after ``minutes``; tell ``listener`` about the wait."""
        started, announced = self.now(), False
        while True:
            busiest = self._busiest(hosts)
            if busiest is None or busiest[1] < quiet_bound():
                if announced:
                    listener.readying("the machine is quiet: the run starts")
                return
            host, share = busiest
            waited_s = self.now() - started
            if waited_s >= 60 * self.minutes:
                listener.readying(
                    f"other processes still take {share:.0%} of the CPUs of {display_name(host)} after "
                    f"{self.minutes:g} minutes: the run starts anyway"
                )
                return
            if not announced:
                listener.readying(
                    f"other processes take {share:.0%} of the CPUs of {display_name(host)}: waiting until they take "
                    f"less than {quiet_bound():.0%}, at most {self.minutes:g} minutes (--wait-quiet)"
                )
                announced = True
            listener.pulse(Heartbeat(waited_s, None))

    def _busiest(self, hosts: Sequence[Host]) -> tuple[Host, float] | None:
        """Return the host whose CPUs are busiest, and the busy share; None if no host shows its load."""
        before = map_hosts(hosts, _cpu_seconds)
        self.sleep(self.look_s)
        after = map_hosts(hosts, _cpu_seconds)
        shares = [
            (host, (now[0] - then[0]) / (now[1] - then[1]))
            for host, then, now in zip(hosts, before, after, strict=True)
            if then is not None and now is not None and now[1] > then[1]
        ]
        return max(shares, key=lambda pair: pair[1], default=None)


def _cpu_seconds(host: Host) -> tuple[float, float] | None:
    """Return the busy and the total seconds of the CPUs that a run may use; None if the host does not show them."""
    text = host.read(_STAT)
    if not text:
        return None
    usage = parse_stat(text.decode(errors="replace"), allowed_cpus() if host.name == LOCALHOST else None)
    return usage.busy_s, usage.total_s


def pin(cpus: frozenset[int]) -> None:
    """Limit this program, and all processes that it starts from now on, to these CPUs.

    Raises ``ValueError`` if one of them is not one that this program may use.
    """
    missing = sorted(cpus - os.sched_getaffinity(0))
    if missing:
        raise ValueError(f"CPU {missing[0]} is not one that this program may use")
    os.sched_setaffinity(0, cpus)
