"""Golden observations: three steps of each built-in model that ship with trainmark, as one more partner to compare.

``golden/MODEL.json`` (``golden/MODEL-RULE.json`` for another optimizer) has sketches of PyTorch's gradients, updates
and outputs in FP32. ``scripts/golden_observations.py`` writes it only if all frameworks that train the model agree.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from trainmark.equivalence.inputs import NO_RULES, equal_work_of, worker_flags
from trainmark.equivalence.rounding import ALL, SIGNIFICANT_BITS, Rounding
from trainmark.schema.case import case_of
from trainmark.schema.certificate import GOLDEN
from trainmark.schema.frozen import Frozen
from trainmark.schema.observation import Observation
from trainmark.schema.precision import Precision

FOLDER = Path(__file__).parent / "golden"

DIGITS = 7
"""The significant digits of a stored number; FP32 has 7."""

VALUES = 256
"""The number of values of each input array that the digest of the inputs covers."""

UNSTORED: Any = {"framework": True, "pre_activations": True, "steps": {"__all__": {"moments"}}}
"""The parts of an observation that are not compared between frameworks."""


class Golden(Frozen):
    """A golden observation: the document in ``golden/``.

    ``inputs`` is the digest of the inputs and the recipe of the observed steps (``digest_inputs``); ``agreed`` are
    the frameworks, with their versions, whose observations agreed when it was made. ``rounding`` has the distances
    that a format implies, by its significant bits, by subject and by name.
    """

    schema_name: Literal["trainmark.golden/1"] = "trainmark.golden/1"
    inputs: str
    agreed: Mapping[str, str]
    observation: Mapping[str, Any]
    rounding: Mapping[str, Mapping[str, Mapping[str, float]]] = {}


def golden_path(model: str, rules: Mapping[str, str] = NO_RULES) -> Path:
    """Return the file of the golden observation of a model, trained by these ``rules``."""
    usual = case_of(model=model).fixed_axes
    return (
        FOLDER
        / f"{'-'.join((model, *(value for axis, value in rules.items() if value != usual[axis])))}.json"
    )


def has_golden(model: str, rules: Mapping[str, str] = NO_RULES) -> bool:
    """Return whether trainmark has a golden observation of a model, trained by these ``rules``."""
    return golden_path(model, rules).is_file()


def golden_bytes(model: str, rules: Mapping[str, str] = NO_RULES) -> bytes:
    """Return the golden observation as it is stored; nothing if there is none."""
    return golden_path(model, rules).read_bytes() if has_golden(model, rules) else b""


def golden_of(model: str, rules: Mapping[str, str] = NO_RULES) -> Observation | None:
    """Return the golden observation of a model, trained by these ``rules``; None if there is none.

    Raises ``ValueError`` if its file is damaged.
    """
    if not has_golden(model, rules):
        return None
    stored = _stored(model, rules)
    try:
        steps = [{**step, "moments": {}} for step in stored.observation["steps"]]
        document = {**stored.observation, "framework": GOLDEN, "steps": steps}
        return equal_work_of(model, rules).observation.model_validate(document)
    except (ValidationError, KeyError, TypeError) as error:
        raise _damaged(model, rules, error) from error


def golden_rounding(model: str, rules: Mapping[str, str], precision: Precision) -> Rounding | None:
    """Return the distances that a precision implies for a model; None if they are unknown.

    Raises ``ValueError`` if the file is damaged.
    """
    bits = SIGNIFICANT_BITS.get(precision)
    if bits is None or not has_golden(model, rules):
        return None
    stored = _stored(model, rules).rounding
    if not stored:
        return None
    # The distances of FP32 are those of the format with most bits, as much smaller as its last bit is.
    nearest = min(stored, key=lambda other: abs(int(other) - bits))
    factor = 2.0 ** (int(nearest) - bits)

    def scaled(subject: str) -> dict[str, float]:
        return {name: factor * value for name, value in stored[nearest][subject].items()}

    return Rounding(
        activations=scaled("activations"),
        logits=scaled("logits")[ALL],
        loss=scaled("loss")[ALL],
        gradients=scaled("gradients"),
        updates=scaled("updates"),
    )


def _stored(model: str, rules: Mapping[str, str]) -> Golden:
    try:
        return Golden.model_validate_json(golden_bytes(model, rules))
    except ValidationError as error:
        raise _damaged(model, rules, error) from error


def _damaged(model: str, rules: Mapping[str, str], error: Exception) -> ValueError:
    return ValueError(f"{golden_path(model, rules)} is damaged: {str(error).splitlines()[0]}")


def golden_document(
    observed: Observation,
    agreed: Mapping[str, str],
    rules: Mapping[str, str] = NO_RULES,
    rounding: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
) -> str:
    """Return the text of a golden observation: ``observed`` with numbers of ``DIGITS`` digits."""
    stored = _rounded(observed.model_dump(mode="json", exclude=UNSTORED))
    golden = Golden(
        inputs=digest_inputs(observed.model, rules),
        agreed=agreed,
        observation=stored,
        rounding=rounding or {},
    )
    return golden_text(golden)


def golden_text(golden: Golden) -> str:
    """Return a golden observation as it is stored."""
    return json.dumps(golden.model_dump(mode="json"), separators=(",", ":")) + "\n"


def digest_inputs(model: str, rules: Mapping[str, str] = NO_RULES) -> str:
    """Return a digest of a model's inputs and recipe: another digest means another golden observation."""
    digest = hashlib.sha256("\n".join(worker_flags(model, Path("-"), rules=rules)).encode())
    task = equal_work_of(model, rules)
    for name, array in sorted(task.inputs(task.form(model), 0).items()):
        step = max(array.size // VALUES, 1)
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array.reshape(-1)[::step]).tobytes())
    return f"sha256:{digest.hexdigest()}"


def _rounded(value: Any) -> Any:
    """Return a JSON value whose numbers have ``DIGITS`` digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value
