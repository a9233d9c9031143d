"""Which hosts a case may run on when cases run side by side, and which of them are free.

All hosts of a case are alike, and all its runs are on hosts that are alike, so that they can be pooled: those like the
first host of the list that has the case's labels, as long as there are enough of them. Among these its runs go round,
so that an effect of a host is spread, and can be seen.
"""

import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.campaign.identity import traffic_of, variables_of
from trainmark.campaign.run_environment import has_labels
from trainmark.environment import fingerprint
from trainmark.node import Host, HostError, map_hosts
from trainmark.schema.case import Case
from trainmark.schema.manifest import Manifest


@dataclass(slots=True)
class Hosting:
    """Hosts by their names, in their order, and what each is: equal things are alike. ``lost`` are not reached."""

    hosts: Mapping[str, Host]
    kinds: Mapping[str, Hashable]
    lost: set[str] = field(default_factory=set)
    _busy: set[str] = field(default_factory=set)
    _used: dict[str, Counter[str]] = field(default_factory=dict)
    _unlike: dict[str, set[str]] = field(default_factory=dict)

    def allowed(self, case: Case) -> tuple[str, ...]:
        """Return the hosts that a case may run on; as many as there are where there are too few."""
        unlike = self._unlike.get(case.id, set())
        labelled = [
            name for name, host in self.hosts.items() if has_labels(host, case) and name not in unlike
        ]
        there = [name for name in labelled if name not in self.lost]
        if len(there) < case.nodes:
            # The run says who cannot be reached, or how many hosts there are.
            return tuple(labelled[: case.nodes])
        for kind in dict.fromkeys(self.kinds[name] for name in there):
            alike = [name for name in there if self.kinds[name] == kind]
            if len(alike) >= case.nodes:
                return tuple(alike)
        return tuple(there[: case.nodes])

    def free(self, case: Case) -> tuple[str, ...] | None:
        """Return the free hosts that a case would take now: those that it used least; None where they are too few."""
        allowed = self.allowed(case)
        used = self._used.get(case.id, Counter())
        free = sorted((name for name in allowed if name not in self._busy), key=lambda name: used[name])
        wanted = min(case.nodes, len(allowed))
        order = list(self.hosts)
        return tuple(sorted(free[:wanted], key=order.index)) if len(free) >= wanted else None

    def take(self, case: Case, names: Sequence[str]) -> tuple[Host, ...]:
        """Let a case have these hosts."""
        self._busy |= set(names)
        self.ran(case, names)
        return tuple(self.hosts[name] for name in names)

    def ran(self, case: Case, names: Sequence[str]) -> None:
        """Count a run of a case on these hosts."""
        self._used.setdefault(case.id, Counter()).update(names)

    def refuse(self, case: Case, names: Collection[str]) -> bool:
        """Let a case have these hosts no more, which are unlike those of its runs; tell whether enough are left."""
        self._unlike.setdefault(case.id, set()).update(names)
        return len(self.allowed(case)) >= case.nodes

    def give_back(self, names: Sequence[str]) -> None:
        """Let others have these hosts."""
        self._busy -= set(names)


def hosting(hosts: Sequence[Host]) -> Hosting:
    """Ask each host what it is: hardware and limits, slots, and what else runs there would not have in common.

    Which environments it has shows only when one is needed: see ``Hosting.refuse``.
    """
    kinds = map_hosts(hosts, _kind)
    by_name = {host.name: host for host in hosts}
    found = Hosting(by_name, {host.name: kind for host, kind in zip(hosts, kinds, strict=True)})
    found.lost |= {host.name for host, kind in zip(hosts, kinds, strict=True) if kind is None}
    return found


def _kind(host: Host) -> Hashable:
    try:
        node = host.facts(None, None, None)
        traffic = json.dumps(traffic_of(host.traffic).model_dump(mode="json"), sort_keys=True)
        variables = tuple(sorted(variables_of(node).items()))
        return fingerprint(Manifest(nodes=(node,))), host.machine(), host.interface, traffic, variables
    except HostError:
        return None
