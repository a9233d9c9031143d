"""``--to paddle-json``: the row of the framework-benchmark database, with exactly the fields of its template.

Source of fields and names: document 004, section 输出. Missions and directions: ``missions.yaml``.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict

from trainmark.documents import parse_yaml
from trainmark.errors import InputError, nearest
from trainmark.report.exchange.rows import SpeedRow
from trainmark.suite.loading import template_name

DatabaseRow = dict[str, str | int | float | None]

FIELDS = (
    "log_file",
    "model_name",
    "mission_name",
    "direction_id",
    "run_mode",
    "index",
    "gpu_num",
    "FINAL_RESULT",
    "JOB_FAIL_FLAG",
    "UNIT",
)
"""The fields of a row, in the template's order."""

SPEED_INDEX = 1
"""``index`` of a speed measurement, by the template."""


class RunMode(StrEnum):
    """The run mode of the template: one device or several."""

    SINGLE = "sp"
    MULTIPLE = "mp"


class Mission(BaseModel):
    """A task of the database, the direction that it belongs to, and the models that belong to it by default.

    ``repository`` is the template's ``repoName``, the prefix of names, if known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    direction: int
    english: str
    models: tuple[str, ...] = ()
    repository: str | None = None


@cache
def load_missions() -> tuple[Mission, ...]:
    """Return the registry of missions."""
    document = parse_yaml((files(__package__) / "missions.yaml").read_text(encoding="utf-8"))
    return tuple(Mission.model_validate(entry) for entry in document["missions"])


@cache
def load_directions() -> Mapping[int, str]:
    """Return the directions by their number: 0 CV, 1 NLP, 2 Rec."""
    document = parse_yaml((files(__package__) / "missions.yaml").read_text(encoding="utf-8"))
    return dict(document["directions"])


def mission_for(model: str, name: str | None = None) -> Mission:
    """Return the mission called ``name`` (Chinese or English), or the one that ``model`` belongs to.

    Raises ``InputError`` if the name is unknown, or the model belongs to no mission.
    """
    if name is not None:
        return find_mission(name)
    missions = load_missions()
    plain = _plain(model)
    for mission in missions:
        if any(plain.startswith(_plain(prefix)) for prefix in mission.models):
            return mission
    raise InputError(f"no mission is known for the model '{model}'")


def find_mission(name: str) -> Mission:
    """Return the mission called ``name`` (Chinese or English); raise ``InputError`` with the nearest name."""
    missions = load_missions()
    for mission in missions:
        if name in (mission.name, mission.english):
            return mission
    known = [word for mission in missions for word in (mission.name, mission.english)]
    raise InputError(f"no mission '{name}'{nearest(name, known)}")


def paddle_row(row: SpeedRow, mission: Mission) -> DatabaseRow:
    """Return the database row of one run.

    A run without a number has ``JOB_FAIL_FLAG`` 1 and ``FINAL_RESULT`` null: the database requires the field, and a
    number must not be invented for it.
    """
    mode = RunMode.SINGLE if row.devices == 1 else RunMode.MULTIPLE
    values: DatabaseRow = {
        "log_file": log_file_name(row, mission.repository),
        "model_name": case_name(row, mission.repository),
        "mission_name": mission.name,
        "direction_id": mission.direction,
        "run_mode": mode.value,
        "index": SPEED_INDEX,
        "gpu_num": row.devices,
        "FINAL_RESULT": None if row.speed is None else round(row.speed, 3),
        "JOB_FAIL_FLAG": int(row.speed is None),
        "UNIT": row.unit,
    }
    assert tuple(values) == FIELDS
    return values


def case_name(row: SpeedRow, repository: str | None) -> str:
    """Return ``repoName_model_bs${bs_item}_${fp_item}``, such as ``clas_MobileNetv1_bs32_fp32``."""
    return "_".join([*_first(repository), row.model, f"bs{row.batch_per_device}", row.precision])


def log_file_name(row: SpeedRow, repository: str | None) -> str:
    """Return the template's log name, such as ``clas_MobileNetV1_mp_bs64_fp32_8_speed``."""
    return template_name(repository, row.model, row.devices, row.batch_per_device, row.precision, row.repeat)


def _first(repository: str | None) -> tuple[str, ...]:
    return (repository,) if repository else ()


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())
