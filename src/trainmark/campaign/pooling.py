"""Refusing to pool what cannot be pooled: the runs of a case share one environment, or they are not its repeats."""

from trainmark.campaign.collect import manifest_in
from trainmark.environment import Manifest, differences, fingerprint
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.suite import Case

_POOLED = (".cpu.", ".memory.", ".accelerators.", ".framework.", ".environment_lock")
_SHOWN = 3


def require_same_environment(directory: ResultDirectory, case: Case, manifest: Manifest) -> None:
    """Raise ``InputError`` naming what differs when an earlier run of the case had another environment.

    The manifests' fingerprints decide: hardware, limits, driver and versions, not names and times.
    """
    for record in directory.finished(case).values():
        earlier = manifest_in(directory.run(case, record.repeat))
        if earlier is None or fingerprint(earlier) == fingerprint(manifest):
            continue
        told = [
            f"{path} was {before} and is {now}"
            for path, before, now in differences(earlier, manifest)
            if any(part in path for part in _POOLED)
        ]
        more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        raise InputError(
            f"{directory.path}: run {record.repeat} of {case.id} was measured in another environment "
            f"({'; '.join(told[:_SHOWN])}{more}), and runs of both cannot be pooled; give another --out"
        )
