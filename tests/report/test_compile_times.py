"""The first compilation is shown apart from that of runs which took their programs from the cache."""

from pathlib import Path

import sample_results as sample

from trainmark.report import Language, render_markdown
from trainmark.schema.case import Case, case_of
from trainmark.schema.results import RunResult

CASE = case_of(compiler="torch.compile")


def compiled(case: Case, repeat: int, seconds: float, hits: int | None) -> RunResult:
    """Return a run that compiled for so many seconds, and took so many programs from the cache."""
    actual = None if hits is None else {"compile_cache_hits": hits}
    run = sample.run(case, repeat, throughput=1404.55, parameters={"optimizer": "sgd", "actual": actual})
    assert run.measurement is not None
    measurement = run.measurement.model_copy(update={"compile_s": seconds})
    return run.model_copy(update={"measurement": measurement})


def shown(*runs: RunResult) -> str:
    """Return the text of the last but one column of the table of steps: the compilation."""
    lines = render_markdown(sample.results([(CASE, runs)]), Path("/nowhere"), Language.EN).splitlines()
    header = next(at for at, line in enumerate(lines) if "compilation (s)" in line)
    column = [cell.strip() for cell in lines[header].split("|")].index("compilation (s)")
    return lines[header + 2].split("|")[column].strip()


def test_the_first_compilation_is_shown_besides_those_of_the_cache() -> None:
    runs = [compiled(CASE, repeat, *of) for repeat, of in enumerate([(16.8, 0), (2.3, 2), (2.1, 2)], 1)]
    assert shown(*runs) == "16.800; 2.200 from the cache"


def test_a_campaign_whose_programs_were_all_in_the_cache_says_so() -> None:
    assert shown(compiled(CASE, 1, 2.3, 2), compiled(CASE, 2, 2.1, 2)) == "2.200 from the cache"


def test_without_a_cache_it_is_the_median() -> None:
    assert shown(compiled(CASE, 1, 16.8, None), compiled(CASE, 2, 17.0, None)) == "16.90"
