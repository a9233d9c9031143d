"""The peak rates of devices that a built-in worker measured, as entries of the run's manifest."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from trainmark.schema.manifest import MeasuredPeak, PeakQuantity, PeakUnit

_Rates = Annotated[tuple[PositiveInt, ...] | None, Field(strict=False)]


class _PeakFields(BaseModel):
    """The fields that are read from the event about the whole run; rates have one value per rank."""

    model_config = ConfigDict(frozen=True, strict=True)

    peak_operations_per_s: _Rates = None
    peak_of: str | None = None
    peak_type: str | None = None
    peak_bytes_per_s: _Rates = None
    peak_bytes_of: str | None = None
    peak_bytes_type: str | None = None


def measured_peaks(summary: Mapping[str, Any], ranks: int) -> tuple[MeasuredPeak, ...]:
    """Return the measured peaks of all ranks' devices, rank by rank; empty if ``summary`` has none.

    ``summary`` is the run's last event and ``ranks`` its number of ranks; lists of another length are ignored.
    """
    try:
        fields = _PeakFields.model_validate(summary)
    except ValidationError:
        return ()
    product, memory = PeakQuantity.MATRIX_PRODUCT, PeakQuantity.MEMORY
    quantities = (
        (product, PeakUnit.OPERATIONS, fields.peak_operations_per_s or (), fields.peak_type, fields.peak_of),
        (memory, PeakUnit.BYTES, fields.peak_bytes_per_s or (), fields.peak_bytes_type, fields.peak_bytes_of),
    )
    found = (
        MeasuredPeak(rank=rank, quantity=quantity, rate=rate, unit=unit, type=kind, of=of)
        for quantity, unit, rates, kind, of in quantities
        if len(rates) == ranks
        for rank, rate in enumerate(rates)
    )
    return tuple(sorted(found, key=lambda peak: peak.rank))
