"""The MFU of another project's language model, of the device's data sheet peak.

A token takes 6 operations for each parameter, and ``12 L H Q T`` in the attention of ``L`` layers with ``H`` heads of
size ``Q`` over ``T`` tokens (Chowdhery et al., PaLM, 2022, appendix B), if log, command or user give the shape.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.measure.device_peaks import find_peak
from trainmark.schema.case import UNKNOWN, Case
from trainmark.schema.measurement import Measurement, ModelFlops
from trainmark.schema.telemetry import TelemetrySummary
from trainmark.workload import Card

_HEAD_BYTES = 1 << 19
_PARAMETERS = re.compile(
    rb"(?i)\b(number of (?:model |trainable )?param(?:eter)?s|num_param(?:eter)?s|n_params"
    rb"|(?:total|model|trainable|all) param(?:eter)?s(?: count)?|param(?:eter)? count)\s*[:=]?\s*"
    rb"([\d][\d,]*(?:\.\d+)?)\s*([KMB]|million|billion)?\b"
)
_ADAPTERS = re.compile(rb"(?i)(?<![a-z])(?:q?lora|peft|adapters?)(?![a-z])")
_ALL = 0.9
"""Least share of the parameters that are trained where the others count like them."""
_SCALES = {b"": 1.0, b"k": 1e3, b"m": 1e6, b"million": 1e6, b"b": 1e9, b"billion": 1e9}
_FEWEST = 10_000
"""A smaller number is none of a language model's parameters, but of something else."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of a transformer that its attention's operations follow from; ``by`` names the sources."""

    layers: int
    hidden_size: int
    sequence_length: int
    by: str

    @property
    def attention_per_token(self) -> float:
        """The operations of full attention for one token, forward and backward; causal attention needs half."""
        return 12.0 * self.layers * self.hidden_size * self.sequence_length


_SHAPE: Mapping[str, tuple[str, ...]] = {
    "layers": ("n_layers?", "num_layers", "num_hidden_layers", "n_blocks"),
    "hidden_size": ("n_embd", "hidden_size", "d_model", "embed_dim", "n_embed"),
    "sequence_length": (
        "block_size",
        "seq_len",
        "seq_length",
        "sequence_length",
    ),
}
"""The names by which programs print or take the shape of their model.

``hidden_dim`` is often the width of the feed-forward layers, and a longest sequence need not be the trained one.
"""


def model_shape(
    card: Card, log: Path, commands: Sequence[str], printed_length: str | None = None
) -> ModelShape | None:
    """Return the shape of the model: each number as stated, as a switch of the command, or as the log prints it.

    None if a number is missing, or if the log prints several values of one. ``printed_length`` is the sequence length
    that the log's format reads.
    """
    head = _head_of(log)
    found: dict[str, int] = {}
    sources: dict[str, None] = {}
    for name, words in _SHAPE.items():
        stated = getattr(card, name)
        options = [(stated, "stated"), (_named(" ".join(commands).encode(), words), "from the command")]
        if name == "sequence_length" and printed_length is not None and printed_length.isdecimal():
            options.append((int(printed_length), "from the log"))
        options.append((_named(head, words), "from the log"))
        value, source = next(((value, source) for value, source in options if value), (None, ""))
        if value is None:
            return None
        found[name] = value
        sources[source] = None
    return ModelShape(**found, by=" and ".join(sources))


def _named(text: bytes, words: Sequence[str]) -> int | None:
    """Return the number that a text gives by one of these names; None for no number, or for different ones."""
    names = "|".join(words).replace("_", "[_-]").encode()
    found = re.findall(rb"(?i)(?<![\w-])(?:--?)?(?:" + names + rb")['\"]?\s*[:= ]\s*(\d+)\b", text)
    values = {int(number) for number in found}
    return values.pop() if len(values) == 1 else None


def model_flops(
    case: Case,
    card: Card,
    log: Path,
    measurement: Measurement,
    telemetry: Sequence[TelemetrySummary],
    commands: Sequence[str] = (),
) -> ModelFlops | None:
    """Return the MFU of a run that counts tokens, where parameters, precision and device are known; else None.

    The parameters are those that the card states, or the log prints; the precision is the case's, or the log's. The
    device is the GPU of which the telemetry shows that it was busy in the window.
    """
    parameters, source = card.parameters, "stated"
    if parameters is None:
        parameters, source = printed_parameters(log, commands), "from the log"
    stated = case.precision if case.precision != UNKNOWN else measurement.witnessed.get("precision")
    busy = {gpu.name for node in telemetry for gpu in node.gpus if gpu.utilisation_mean and gpu.name}
    peak = find_peak(busy.pop()) if len(busy) == 1 else None
    tflops = None if peak is None else peak.dense_tflops(stated)
    if parameters is None or peak is None or tflops is None:
        return None
    devices = int(measurement.witnessed.get("gpus", case.world_size))
    shape = model_shape(card, log, commands, measurement.witnessed.get("sequence_length"))
    attention = 0.0 if shape is None else shape.attention_per_token
    operations = 6.0 * parameters + attention
    rate_of_peak = measurement.throughput / (tflops * 1e12 * devices)
    return ModelFlops(
        parameters=parameters,
        parameters_by=source,
        operations_per_token=operations,
        peak_operations_per_s=tflops * 1e12 * devices,
        peak_by=f"data sheet of {peak.device}, dense {stated}",
        mfu=rate_of_peak * operations,
        convention="6N" if shape is None else "6N+12LHQT",
        layers=None if shape is None else shape.layers,
        hidden_size=None if shape is None else shape.hidden_size,
        sequence_length=None if shape is None else shape.sequence_length,
        shape_by=None if shape is None else shape.by,
        mfu_causal=None if shape is None else rate_of_peak * (operations - attention / 2),
    )


def printed_parameters(log: Path, commands: Sequence[str] = ()) -> int | None:
    """Return the largest number of parameters that a log prints near its start; None if it prints none.

    None too where only a part of them is trained, as with LoRA: the others take no operations for their gradients.
    """
    head = _head_of(log)
    trained: list[int] = []
    whole: list[int] = []
    for name, number, suffix in _PARAMETERS.findall(head):
        count = round(float(number.replace(b",", b"")) * _SCALES[suffix.lower()])
        if count >= _FEWEST:
            (trained if b"trainable" in name.lower() else whole).append(count)
    most = max((*trained, *whole), default=None)
    if most is None or not trained:
        return most
    with_adapters = not whole and _ADAPTERS.search(head + " ".join(commands).encode(errors="replace"))
    return None if with_adapters or max(trained) < _ALL * most else most


def _head_of(log: Path) -> bytes:
    """Return the start of a log; nothing if it cannot be read."""
    try:
        with log.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
