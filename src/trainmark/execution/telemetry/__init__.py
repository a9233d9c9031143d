"""Telemetry beside a run: sampled into ``telemetry.jsonl`` while it goes on, summarised for a window afterwards."""

from trainmark.execution.telemetry.gpu import SLOWDOWNS
from trainmark.execution.telemetry.sampler import Clock, Sampler, Telemetry
from trainmark.execution.telemetry.summary import Recording, read_telemetry, summarise
from trainmark.words.telemetry import (
    CpuSample,
    GpuSample,
    GpuSummary,
    Header,
    MemorySample,
    Sample,
    TelemetrySummary,
)

__all__ = [
    "SLOWDOWNS",
    "Clock",
    "CpuSample",
    "GpuSample",
    "GpuSummary",
    "Header",
    "MemorySample",
    "Recording",
    "Sample",
    "Sampler",
    "Telemetry",
    "TelemetrySummary",
    "read_telemetry",
    "summarise",
]
