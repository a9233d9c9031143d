"""The clock and the power of a GPU while another process trains on it."""

import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

INTERVAL_S = 0.02
"""Between two looks; NVML has a new value some ten to fifty times a second."""


class Clocks:
    """Looks at one GPU through NVML (nvidia-ml-py), from a thread that otherwise sleeps.

    It is the first of ``CUDA_VISIBLE_DEVICES``, by number or UUID, else NVML's first. Nothing is said where there is
    no NVML, nor of what the driver does not tell.
    """

    def __init__(self, device: str) -> None:
        self._nvml: Any = None
        if device == "cuda":
            try:
                import pynvml

                pynvml.nvmlInit()
            except Exception:  # no binding or no driver: there is nothing to say then
                return
            self._nvml = pynvml
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
            by_uuid = not first.isdecimal()
            self._gpu = self._ask("nvmlDeviceGetHandleByUUID", first) if by_uuid else None
            self._gpu = self._gpu or self._ask("nvmlDeviceGetHandleByIndex", 0 if by_uuid else int(first))

    def during(self, block: Callable[[], float]) -> tuple[float, dict[str, float]]:
        """Return what a block says it took, and ``sm_mhz`` and ``power_w``, means over the time it was waited for."""
        if self._nvml is None or self._gpu is None:
            return block(), {}
        over, clocks = threading.Event(), []
        kind = self._nvml.NVML_CLOCK_SM

        def look() -> None:
            while not over.wait(INTERVAL_S):
                clocks.append(self._ask("nvmlDeviceGetClockInfo", self._gpu, kind))

        looking = threading.Thread(target=look, daemon=True)
        before_mj = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._gpu)
        looking.start()
        begun = time.perf_counter()
        try:
            seconds = block()
        finally:
            took_s = time.perf_counter() - begun
            over.set()
            looking.join()
        after_mj = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._gpu)
        said = {}
        if known := [mhz for mhz in clocks if mhz is not None]:
            said["sm_mhz"] = round(statistics.fmean(known), 1)
        if before_mj is not None and after_mj is not None:
            said["power_w"] = round((after_mj - before_mj) / 1e3 / took_s, 1)
        return seconds, said

    def _ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError:
            return None
