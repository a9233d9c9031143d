"""Check ``trainmark predict`` on published series: leave the largest scale out, predict it, compare.

    python benchmarks/prediction.py

prints Markdown tables, which ``scripts/prediction_page.py`` writes into ``docs/appendix/predicting.md``. It runs for
seconds and has no random numbers. The documents 000 to 003 are those of ``docs/reference/published-figures.md``.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product

import numpy as np

from trainmark.prediction.backtest import Summary, Trial, summarise, trials
from trainmark.prediction.models import CONSTANTS, Constants
from trainmark.prediction.scales import ScaleSeries, series_from_references
from trainmark.reference import published_sources
from trainmark.schema.prediction import RefusalCode, ScalingModel

DOCUMENTS = ("paddle-perf", "five-frameworks", "dlperf-tensorflow")
REPORTS = ("dlperf-report", "dlperf-language", "perf-bert")
LARGE = ("llm-foundry", "tpu-recipes", "torchtitan-2024.12", "torchtitan-2025.06", "mlperf-5.0")
HOSTS = ("ngc-mxnet", "ngc-pytorch", "ngc-tensorflow")

GROUPS: tuple[tuple[str, Callable[[Trial], bool]], ...] = (
    (
        "documents 000 to 003, 32 devices",
        lambda trial: trial.source in DOCUMENTS and trial.devices == 32,
    ),
    (
        "reports of DLPerf and PaddlePaddle/Perf, 32 devices",
        lambda trial: trial.source in REPORTS and trial.devices == 32,
    ),
    ("both", lambda trial: trial.source in (*DOCUMENTS, *REPORTS) and trial.devices == 32),
    (
        "weak scaling, llm-foundry, tpu-recipes, torchtitan, MLPerf v5.0",
        lambda trial: trial.source in LARGE and trial.model not in (ScalingModel.STRONG, None),
    ),
    (
        "strong scaling, the same sources",
        lambda trial: trial.source in LARGE and trial.model is ScalingModel.STRONG,
    ),
    (
        "the same sources, all",
        lambda trial: trial.source in LARGE,
    ),
    (
        "within a host",
        lambda trial: trial.model is ScalingModel.WITHIN_HOST,
    ),
)


def check() -> list[Trial]:
    """Return the trials of all sources that were read for this."""
    return trials(_sources())


@cache
def _sources() -> dict[str, list[ScaleSeries]]:
    published = published_sources()
    return {name: series_from_references(published[name]) for name in (*DOCUMENTS, *REPORTS, *HOSTS, *LARGE)}


def report() -> str:
    """Return the tables in Markdown."""
    found = check()
    parts = [
        "| series | predicted | refused | median error | 90th percentile | largest | in the 90 % interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(name, summarise([trial for trial in found if belongs(trial)])) for name, belongs in GROUPS),
        "",
        "With the constants and the widths of the intervals found without the source of the series:",
        "",
        "| series | median error | 90th percentile | in the 90 % interval |",
        "| --- | ---: | ---: | ---: |",
        *_held_out(),
        "",
        "Each prediction for several hosts from published series of 2024 to 2026:",
        "",
        "| series | from | to | batch a device | model | error | interval |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
        *(_line(trial) for trial in found if trial.source in LARGE and trial.error is not None),
        "",
        "Refused, by reason:",
        "",
        *_refusals(found),
    ]
    return "\n".join(parts)


def _row(name: str, found: Summary) -> str:
    cells = [_percent(found.median), _percent(found.percentile_90), _percent(found.largest)]
    return f"| {name} | {found.predicted} | {found.refused} | {' | '.join(cells)} | {_share(found.covered)} |"


def _line(trial: Trial) -> str:
    assert trial.error is not None
    assert trial.half_width is not None
    series = trial.series.partition(": ")[2]
    batch = "-" if trial.batch is None else f"{trial.batch:g}"
    return (
        f"| {series} | {trial.largest} | {trial.devices} | {batch} | {trial.model} | {trial.error:+.1%} | "
        f"±{math.expm1(trial.half_width):.1%} |"
    )


def _held_out() -> Iterable[str]:
    """Yield the errors of models whose constants were fitted without the source."""
    groups = (
        ("documents 000 to 003, 32 devices", DOCUMENTS, ScalingModel.FIRST_HOSTS),
        ("reports of DLPerf and PaddlePaddle/Perf, 32 devices", REPORTS, ScalingModel.FIRST_HOSTS),
        *(
            (f"strong scaling, {name}", (name,), ScalingModel.STRONG)
            for name in ("llm-foundry", "mlperf-5.0")
        ),
    )
    for name, sources, model in groups:
        constants = _best(sources, model)
        rest = [trial for trial in trials(_sources(), constants) if trial.model is model]
        others = [_score(trial) for trial in rest if trial.source not in sources]
        wider = float(np.quantile(others, 0.9)) if others else 1.0
        own = [trial for trial in rest if trial.source in sources]
        summary = summarise(own)
        covered = sum(_score(trial) <= wider for trial in own) / len(own) if own else None
        yield f"| {name} | {_percent(summary.median)} | {_percent(summary.percentile_90)} | {_share(covered)} |"


def _best(without: Sequence[str], model: ScalingModel) -> Constants:
    """Return the constants with the least mean error on the sources other than ``without``."""
    sources = {name: one for name, one in _sources().items() if name not in without}
    if model is ScalingModel.STRONG:
        tried = [Constants(step_growth=growth) for growth in np.arange(1.0, 2.51, 0.5)]
    else:
        shares, costs = np.arange(0.0, 0.61, 0.1), (0.0, 0.01, 0.02)
        tried = [Constants(float(share), float(cost)) for share, cost in product(shares, costs)]

    def error(constants: Constants) -> float:
        made = [
            one.error for one in trials(sources, constants) if one.model is model and one.error is not None
        ]
        return float(np.mean(np.abs(made))) if made else math.inf

    return min([CONSTANTS, *tried], key=error)


def _score(trial: Trial) -> float:
    assert trial.error is not None
    assert trial.half_width is not None
    return abs(math.log1p(trial.error)) / trial.half_width


_REASONS = {
    RefusalCode.ONE_HOST: "no measurement on more than one host",
    RefusalCode.RISING: "a device is faster on more devices, at this or another batch",
    RefusalCode.BATCH_OUT_OF_RANGE: "the batch is outside the measured range",
    RefusalCode.BATCH_NOT_MEASURED: "no measurement of the batch",
    RefusalCode.TOO_FEW: "too few scales or batches",
    RefusalCode.TOO_FAR: "more than the checked factor away",
    RefusalCode.TOO_SLOW: "the predicted loss is larger than any that was checked",
    RefusalCode.INEFFICIENT: "a device reaches less than 40 % of its rate alone",
}


def _refusals(found: Sequence[Trial]) -> Iterable[str]:
    reasons = Counter(_REASONS[trial.refused] for trial in found if trial.refused is not None)
    return [f"- {count}: {reason};" for reason, count in reasons.most_common()]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


if __name__ == "__main__":
    print(report())
