"""The energy of the processor packages by the kernel's counters (RAPL, ``/sys/class/powercap``)."""

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_MICROJOULES = 1e6


class PackageEnergy:
    """The counters of all packages; reading gives None where there are none or they are not readable.

    Since Linux 5.10 only root may read them (CVE-2020-8694).
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        # Sub-domains such as intel-rapl:0:0 (cores) are parts of their package; AMD's packages have the same name.
        self._files = [
            zone / "energy_uj"
            for zone in sorted(folder.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and _is_package(zone)
        ]

    def read_j(self) -> float | None:
        """Return the sum of the counters in joules; it grows until a counter starts again."""
        if not self._files:
            return None
        try:
            return sum(int(file.read_text()) for file in self._files) / _MICROJOULES
        except (OSError, ValueError):
            # A counter that cannot be read once, for the lack of rights, cannot be read later either.
            self._files = []
            return None


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False
