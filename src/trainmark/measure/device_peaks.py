"""The peak rates of devices by their vendors' data sheets."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.documents import parse_yaml
from trainmark.schema.precision import NarrowPrecision, Precision

_DATA = Path(__file__).parent / "data" / "device_peaks.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The peak rates of a device: dense TFLOP/s (no sparsity), memory in GB, memory bandwidth in GB/s.

    ``fp32`` is the plain FP32 pipeline; ``tf32``, ``fp16``, ``bf16`` and ``fp8`` are the matrix units with FP32
    accumulation. A format that the device lacks, and what was not read, is null.
    """

    device: str
    architecture: str
    aliases: tuple[str, ...] = ()
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    memory_gb: int | None = None
    bandwidth_gb_per_s: float | None = None
    vendor_document: str
    read_in: tuple[str, ...]
    note: str | None = None

    def dense_tflops(self, precision: str | None) -> float | None:
        """Return the peak in a precision, by its name in suites and figures; None if one of the two is unknown."""
        match precision:
            case Precision.AMP_BF16 | Precision.BF16:
                return self.bf16_tflops
            case Precision.AMP_FP16 | Precision.FP16:
                return self.fp16_tflops
            case Precision.TF32:
                return self.tf32_tflops
            case Precision.FP32:
                return self.fp32_tflops
            case Precision.FP8 | NarrowPrecision.AMP_FP8 | NarrowPrecision.MXFP8:
                return self.fp8_tflops
            case _:
                return None


@cache
def load_peaks() -> tuple[Peak, ...]:
    """Return the peak rates of all known devices."""
    return tuple(_peak(entry) for entry in parse_yaml(_DATA.read_text(encoding="utf-8"))["peaks"])


def _peak(entry: dict[str, Any]) -> Peak:
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    rates = {key: float(value) for key, value in entry.items() if key.endswith(("_tflops", "_per_s"))}
    return Peak(**{**entry, **lists, **rates})


def find_peak(device: str) -> Peak | None:
    """Return the peaks of ``device`` (a driver's name or a short one); None if it is unknown."""
    wanted = plain(device)
    return next(
        (peak for peak in load_peaks() if wanted in {plain(name) for name in (peak.device, *peak.aliases)}),
        None,
    )


def plain(text: str) -> str:
    """Return a name without what its spellings differ in: letters and digits, in small letters."""
    return re.sub(r"[^a-z0-9]", "", text.lower())
