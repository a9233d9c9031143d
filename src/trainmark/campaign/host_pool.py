"""The hosts of a campaign that runs cases side by side: which a case may use, and which are free.

All runs of a case use equal hosts, so that they can be pooled: those equal to the first listed host with the case's
labels, if there are enough of them. The runs rotate among these, so that the effect of a single host is spread out and
visible.
"""

import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.campaign.identity import traffic_of, variables_of
from trainmark.campaign.run_environment import has_labels
from trainmark.measure.pooling import fingerprint
from trainmark.node import Host, HostError, map_hosts
from trainmark.schema.case import Case
from trainmark.schema.manifest import Manifest


@dataclass(slots=True)
class HostPool:
    """Hosts by name, in their order, with the kind of each; ``lost`` names the unreachable ones."""

    hosts: Mapping[str, Host]
    kinds: Mapping[str, Hashable]
    lost: set[str] = field(default_factory=set)
    _busy: set[str] = field(default_factory=set)
    _used: dict[str, Counter[str]] = field(default_factory=dict)
    _unlike: dict[str, set[str]] = field(default_factory=dict)

    def allowed(self, case: Case) -> tuple[str, ...]:
        """Return the names of the hosts that a case may use, or all suitable ones if they are too few."""
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
        """Return the free hosts that a case used least; None if too few are free."""
        allowed = self.allowed(case)
        used = self._used.get(case.id, Counter())
        free = sorted((name for name in allowed if name not in self._busy), key=lambda name: used[name])
        wanted = min(case.nodes, len(allowed))
        order = list(self.hosts)
        return tuple(sorted(free[:wanted], key=order.index)) if len(free) >= wanted else None

    def take(self, case: Case, names: Sequence[str]) -> tuple[Host, ...]:
        """Mark these hosts as busy with a case, and return them."""
        self._busy |= set(names)
        self.ran(case, names)
        return tuple(self.hosts[name] for name in names)

    def ran(self, case: Case, names: Sequence[str]) -> None:
        """Count a run of a case on these hosts."""
        self._used.setdefault(case.id, Counter()).update(names)

    def refuse(self, case: Case, names: Collection[str]) -> bool:
        """Exclude hosts that differ from those of a case's earlier runs; return whether enough are left."""
        self._unlike.setdefault(case.id, set()).update(names)
        return len(self.allowed(case)) >= case.nodes

    def give_back(self, names: Sequence[str]) -> None:
        """Mark these hosts as free."""
        self._busy -= set(names)


def pool_hosts(hosts: Sequence[Host]) -> HostPool:
    """Return the hosts with the kind of each: hardware, limits, slots and other facts that must match to pool runs.

    A host's environments are checked only when one is needed: see ``HostPool.refuse``.
    """
    kinds = map_hosts(hosts, _kind)
    by_name = {host.name: host for host in hosts}
    found = HostPool(by_name, {host.name: kind for host, kind in zip(hosts, kinds, strict=True)})
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
