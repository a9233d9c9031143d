"""Result directories as a reader finds them: one, or a folder of several, with or without their runs."""

from pathlib import Path

from trainmark.errors import InputError
from trainmark.schema.names import RESULTS, RUNS, SUITE
from trainmark.schema.results import Results


def results_of(folder: Path) -> Results:
    """Return the results of a directory: from its runs, or from ``results.json`` if it has no runs.

    The runs come first because a campaign that was killed leaves runs without a ``results.json``. They cannot be read
    without their cards: where one was moved or deleted, the document counts.
    """
    from trainmark.store import read_results

    if not ((folder / SUITE).is_file() and (folder / RUNS).is_dir()):
        return read_results(folder / RESULTS)
    from trainmark.campaign.resume import collect_results, stored_command
    from trainmark.execution import ResultDirectory, read_suite

    suite = read_suite(folder)
    if (folder / RESULTS).is_file() and not all(Path(card).is_file() for card in suite.cards):
        return read_results(folder / RESULTS)
    return collect_results(suite, ResultDirectory(folder), stored_command(folder))


def result_folders(folder: Path) -> list[Path]:
    """Return a result directory, or those directly in a directory; raise ``InputError`` if there is none."""
    if _has_results(folder):
        return [folder]
    found = sorted(one for one in folder.iterdir() if one.is_dir() and _has_results(one))
    if not found:
        raise InputError(
            f"{folder}: neither a result directory of a trainmark run nor a folder that contains one"
        )
    return found


def _has_results(folder: Path) -> bool:
    return (folder / RESULTS).is_file() or (folder / SUITE).is_file()
