"""The peak rates of devices by their vendors' data sheets."""

import re
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from trainmark.files import parse_yaml


class Peak(BaseModel):
    """The peak rates of a device: dense TFLOP/s (no sparsity), memory in GB, memory bandwidth in GB/s.

    ``fp32`` is the plain FP32 pipeline; ``tf32``, ``fp16`` and ``bf16`` are the matrix units with FP32
    accumulation. A format that the device lacks, and what was not read, is null.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    architecture: str
    aliases: tuple[str, ...] = ()
    fp32_tflops: PositiveFloat | None = None
    tf32_tflops: PositiveFloat | None = None
    fp16_tflops: PositiveFloat | None = None
    bf16_tflops: PositiveFloat | None = None
    memory_gb: PositiveInt | None = None
    bandwidth_gb_per_s: PositiveFloat | None = None
    vendor_document: str
    read_in: tuple[str, ...]
    note: str | None = None


@cache
def load_peaks() -> tuple[Peak, ...]:
    """Return the peak rates of all known devices."""
    text = (files("trainmark.measure") / "data" / "device_peaks.yaml").read_text(encoding="utf-8")
    return tuple(Peak.model_validate(entry) for entry in parse_yaml(text)["peaks"])


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
