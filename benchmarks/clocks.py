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

    It is the first of ``CUDA_VISIBLE_DEVICES``, by number or by the beginning of its UUID; where that is not set,
    NVML's first. Nothing is said where there is no NVML or no such GPU, nor of what the driver does not tell.
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
            self._gpu = self._find(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0")

    def during(self, block: Callable[[], float]) -> tuple[float, dict[str, float]]:
        """Return what a block says it took, and ``sm_mhz`` and ``power_w``, means over the time it was waited for.

        The counter of energy moves some ten times a second: of a block of 3 s the power is right to 3 %, of 0.7 s to
        15 %.
        """
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

    def _find(self, named: str) -> Any:
        if named.isdecimal():
            return self._ask("nvmlDeviceGetHandleByIndex", int(named))
        there = range(self._ask("nvmlDeviceGetCount") or 0)
        gpus = (self._ask("nvmlDeviceGetHandleByIndex", index) for index in there)
        return next((gpu for gpu in gpus if str(self._ask("nvmlDeviceGetUUID", gpu)).startswith(named)), None)

    def _ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError:
            return None
