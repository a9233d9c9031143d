"""What a run of our own tells of the peaks of its devices, in the words of its manifest."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from trainmark.schema.manifest import MeasuredPeak, PeakQuantity, PeakUnit

_Rates = Annotated[tuple[PositiveInt, ...] | None, Field(strict=False)]


class _Told(BaseModel):
    """What is read of the event that holds for the whole run; rates have a value a rank."""

    model_config = ConfigDict(frozen=True, strict=True)

    peak_operations_per_s: _Rates = None
    peak_of: str | None = None
    peak_type: str | None = None
    peak_bytes_per_s: _Rates = None
    peak_bytes_of: str | None = None
    peak_bytes_type: str | None = None


def peaks_told(summary: Mapping[str, Any], ranks: int) -> tuple[MeasuredPeak, ...]:
    """Return what the devices of all ranks were measured to do, rank by rank; none where ``summary`` does not say.

    ``summary`` is the run's last event, ``ranks`` how many it had: rates of another number of them are nobody's.
    """
    try:
        told = _Told.model_validate(summary)
    except ValidationError:
        return ()
    product, memory = PeakQuantity.MATRIX_PRODUCT, PeakQuantity.MEMORY
    said = (
        (product, PeakUnit.OPERATIONS, told.peak_operations_per_s or (), told.peak_type, told.peak_of),
        (memory, PeakUnit.BYTES, told.peak_bytes_per_s or (), told.peak_bytes_type, told.peak_bytes_of),
    )
    found = (
        MeasuredPeak(rank=rank, quantity=quantity, rate=rate, unit=unit, type=kind, of=of)
        for quantity, unit, rates, kind, of in said
        if len(rates) == ranks
        for rank, rate in enumerate(rates)
    )
    return tuple(sorted(found, key=lambda peak: peak.rank))
