"""The MFU of another project's language model: 6 operations a parameter and token, of the device's data sheet peak."""

import re
from collections.abc import Sequence
from pathlib import Path

from trainmark.measure.device_peaks import Peak, find_peak
from trainmark.schema.case import UNKNOWN, Case
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Measurement, ModelFlops
from trainmark.schema.precision import Precision
from trainmark.schema.telemetry import TelemetrySummary
from trainmark.workload import Card

_HEAD_BYTES = 1 << 19
_PARAMETERS = re.compile(
    rb"(?i)\b(?:number of (?:model |trainable )?param(?:eter)?s|num_param(?:eter)?s|n_params"
    rb"|(?:total|model|trainable) param(?:eter)?s(?: count)?|param(?:eter)? count)\s*[:=]?\s*"
    rb"([\d][\d,]*(?:\.\d+)?)\s*([KMB]|million|billion)?\b"
)
_SCALES = {b"": 1.0, b"k": 1e3, b"m": 1e6, b"million": 1e6, b"b": 1e9, b"billion": 1e9}
_FEWEST = 10_000
"""A smaller number is none of a language model's parameters, but of something else."""


def model_flops(
    case: Case,
    card: Card,
    log: Path,
    measurement: Measurement,
    manifest: Manifest | None,
    telemetry: Sequence[TelemetrySummary],
) -> ModelFlops | None:
    """Return the MFU of a run that counts tokens, where parameters, precision and device are known; else None.

    The parameters are those that the card states, or the log prints; the precision is the case's, or the log's. The
    device is the GPU of which the telemetry shows that it was busy in the window.
    """
    if measurement.unit != "tokens/s" or manifest is None:
        return None
    parameters, source = card.parameters, "stated"
    if parameters is None:
        parameters, source = printed_parameters(log), "from the log"
    stated = case.precision if case.precision != UNKNOWN else measurement.witnessed.get("precision")
    busy = {gpu.name for node in telemetry for gpu in node.gpus if gpu.utilisation_mean and gpu.name}
    peak = find_peak(busy.pop()) if len(busy) == 1 else None
    tflops = None if peak is None else _tflops(peak, stated)
    if parameters is None or peak is None or tflops is None:
        return None
    devices = int(measurement.witnessed.get("gpus", case.world_size))
    operations = 6.0 * parameters
    return ModelFlops(
        parameters=parameters,
        parameters_by=source,
        operations_per_token=operations,
        peak_operations_per_s=tflops * 1e12 * devices,
        peak_by=f"data sheet of {peak.device}, dense {stated}",
        mfu=measurement.throughput * operations / (tflops * 1e12 * devices),
    )


def printed_parameters(log: Path) -> int | None:
    """Return the largest number of parameters that a log prints near its start; None if it prints none."""
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = [
        float(number.replace(b",", b"")) * _SCALES[suffix.lower()]
        for number, suffix in _PARAMETERS.findall(head)
    ]
    return next((round(count) for count in sorted(found, reverse=True) if count >= _FEWEST), None)


def _tflops(peak: Peak, precision: str | None) -> float | None:
    """Return the dense matrix rate of a device for a precision; None if it is unknown."""
    match precision:
        case Precision.AMP_BF16 | Precision.BF16:
            return peak.bf16_tflops
        case Precision.AMP_FP16 | Precision.FP16:
            return peak.fp16_tflops
        case Precision.TF32:
            return peak.tf32_tflops
        case Precision.FP32:
            return peak.fp32_tflops
        case _:
            return None
