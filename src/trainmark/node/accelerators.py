"""The GPUs of a node, their driver and their topology through NVML.

Values that a driver or a GPU does not support are None, never an error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainmark.schema.manifest import AcceleratorFacts, GpuFacts


class Nvml:
    """An initialised NVML; ``module`` is ``pynvml`` (package nvidia-ml-py), or a stand-in with its functions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def query(self, function: str, *arguments: Any) -> Any:
        """Return an NVML function's result; None if the GPU, the driver or the binding does not support it."""
        try:
            return getattr(self._module, function)(*arguments)
        except (AttributeError, self._module.NVMLError):
            return None

    def text(self, function: str, *arguments: Any) -> str | None:
        """Return a string result; older bindings return bytes, which are decoded."""
        value = self.query(function, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def constant(self, name: str) -> int:
        """Return a constant of the binding by its name."""
        return int(getattr(self._module, name))

    def handles(self) -> list[Any]:
        """Return the handles of the GPUs, in NVML's order, without lost GPUs."""
        found = [
            self.query("nvmlDeviceGetHandleByIndex", index)
            for index in range(self.query("nvmlDeviceGetCount") or 0)
        ]
        return [handle for handle in found if handle is not None]


@contextmanager
def open_nvml() -> Iterator[Nvml | None]:
    """Initialise NVML and shut it down at the end; yields None without a driver or binding."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield Nvml(pynvml)
    finally:
        pynvml.nvmlShutdown()


_COMMON_POINTS = (
    ("NVML_TOPOLOGY_INTERNAL", "PIX"),
    ("NVML_TOPOLOGY_SINGLE", "PIX"),
    ("NVML_TOPOLOGY_MULTIPLE", "PXB"),
    ("NVML_TOPOLOGY_HOSTBRIDGE", "PHB"),
    ("NVML_TOPOLOGY_NODE", "NODE"),
    ("NVML_TOPOLOGY_SYSTEM", "SYS"),
)
"""NVML's ``nvmlGpuTopologyLevel_t`` and the abbreviations of ``nvidia-smi topo -m``."""


def read_accelerators(nvml: Nvml | None) -> AcceleratorFacts:
    """Return the GPUs as NVML reports them; none without NVML."""
    if nvml is None:
        return AcceleratorFacts()
    handles = nvml.handles()
    return AcceleratorFacts(
        driver=nvml.text("nvmlSystemGetDriverVersion"),
        cuda_driver=cuda_version(nvml.query("nvmlSystemGetCudaDriverVersion")),
        gpus=tuple(_gpu(nvml, handle) for handle in handles),
        topology=_topology(nvml, handles),
    )


def cuda_version(number: int | None) -> str | None:
    """Return ``"12.4"`` for NVML's 12040 (1000 times the major version plus 10 times the minor one)."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _gpu(nvml: Nvml, handle: Any) -> GpuFacts:
    memory = nvml.query("nvmlDeviceGetMemoryInfo", handle)
    pci = nvml.query("nvmlDeviceGetPciInfo", handle)
    limit_mw = nvml.query("nvmlDeviceGetEnforcedPowerLimit", handle)
    return GpuFacts(
        name=nvml.text("nvmlDeviceGetName", handle),
        uuid=nvml.text("nvmlDeviceGetUUID", handle),
        pci=None if pci is None else _bus_id(pci),
        vbios=nvml.text("nvmlDeviceGetVbiosVersion", handle),
        memory_bytes=None if memory is None else int(memory.total),
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        max_sm_clock_mhz=nvml.query("nvmlDeviceGetMaxClockInfo", handle, nvml.constant("NVML_CLOCK_SM")),
        max_memory_clock_mhz=nvml.query("nvmlDeviceGetMaxClockInfo", handle, nvml.constant("NVML_CLOCK_MEM")),
        mig=_current(nvml.query("nvmlDeviceGetMigMode", handle)),
        ecc=_current(nvml.query("nvmlDeviceGetEccMode", handle)),
        persistence=_mode(nvml.query("nvmlDeviceGetPersistenceMode", handle)),
    )


def _bus_id(pci: Any) -> str:
    return pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)


def _mode(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _current(modes: Any) -> bool | None:
    """Return the current mode of NVML's ``[current, pending]``."""
    return None if modes is None else bool(modes[0])


def _topology(nvml: Nvml, handles: list[Any]) -> tuple[tuple[str | None, ...], ...]:
    links = [_links(nvml, handle) for handle in handles]
    buses = [
        None if (pci := nvml.query("nvmlDeviceGetPciInfo", handle)) is None else _bus_id(pci)
        for handle in handles
    ]
    words = {nvml.constant(name): word for name, word in _COMMON_POINTS}

    def joined(one: int, other: int) -> str | None:
        if one == other:
            return "X"
        direct = sum(1 for remote in links[one] if remote is not None and remote == buses[other])
        # Through switches every GPU reaches every other with all its links.
        switched = min(links[one].count(_SWITCH), links[other].count(_SWITCH))
        if direct + switched:
            return f"NV{direct + switched}"
        level = nvml.query("nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other])
        return None if level is None else words.get(int(level))

    return tuple(tuple(joined(one, other) for other in range(len(handles))) for one in range(len(handles)))


_SWITCH = "switch"


def _links(nvml: Nvml, handle: Any) -> list[str | None]:
    """Return the remote end of each active NVLink of a GPU: a bus id, ``switch``, or None if unknown."""
    ends: list[str | None] = []
    for link in range(nvml.constant("NVML_NVLINK_MAX_LINKS")):
        if not nvml.query("nvmlDeviceGetNvLinkState", handle, link):
            continue
        if nvml.query("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == nvml.constant(
            "NVML_NVLINK_DEVICE_TYPE_SWITCH"
        ):
            ends.append(_SWITCH)
            continue
        remote = nvml.query("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        ends.append(None if remote is None else _bus_id(remote))
    return ends
