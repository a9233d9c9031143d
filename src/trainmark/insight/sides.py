"""The two sides of an explanation: a run, a case of a result, a log or a published figure."""

from dataclasses import dataclass, field

from trainmark.insight.profiles import ProfiledSide
from trainmark.insight.recipe import StatedRecipe, recipe_of
from trainmark.insight.side_facts import SideFacts
from trainmark.logs.plausibility import Stall
from trainmark.reference import Reference
from trainmark.schema.results import RunBound


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """The value of the run's log by the rule of a publisher of such logs."""

    by: str
    rule: str
    value: float


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run to be explained. ``throughput`` is in ``unit`` over all devices; None if it is unknown.

    ``data_wait`` is the share of a step spent waiting for data according to the run's records (0 to 1). ``doubts`` are
    sentences about the number: why it is missing or suspect. ``noise`` is the relative uncertainty of the number from
    its own records or repeats, ``stall`` the stalls in it, and ``by_publishers`` its values by the rules of publishers
    of such logs. ``bound`` is what the run was bound by. ``facts`` are what a result records besides. ``figure`` is the
    published figure, if the number is one. ``unrepeated`` is the end of a sentence on why it is unknown how far another
    run would differ. ``profile`` is that of its case.
    """

    name: str
    recipe: StatedRecipe
    throughput: float | None
    unit: str | None
    rule: str | None = None
    data_wait: float | None = None
    doubts: tuple[str, ...] = ()
    noise: float = 0.0
    stall: Stall | None = None
    by_publishers: tuple[PublishedRule, ...] = ()
    bound: RunBound | None = None
    facts: SideFacts = field(default_factory=SideFacts)
    figure: Reference | None = None
    unrepeated: str | None = None
    profile: ProfiledSide | None = None


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The side that a run is explained against: a published figure, or another run.

    ``throughput`` is in ``unit`` over all devices, ``text`` the number as it is shown.
    """

    name: str
    recipe: StatedRecipe
    throughput: float | None
    unit: str | None
    text: str
    figure: Reference | None = None
    run: ExplainedRun | None = None


def side_of_figure(figure: Reference) -> OtherSide:
    """Return a published figure as the other side."""
    return OtherSide(figure.id, recipe_of(figure), figure.value, figure.unit, figure.text, figure=figure)


def side_of_run(run: ExplainedRun) -> OtherSide:
    """Return another run as the other side."""
    text = "no throughput" if run.throughput is None else f"{run.throughput:.2f} {run.unit or ''}".rstrip()
    return OtherSide(run.name, run.recipe, run.throughput, run.unit, text, run=run)


def run_of_figure(figure: Reference) -> ExplainedRun:
    """Return a published figure as the side that is explained."""
    return ExplainedRun(figure.id, recipe_of(figure), figure.value, figure.unit, figure=figure)
