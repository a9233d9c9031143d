"""The sources of a site's results: result directories or a database, one campaign after the other."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainmark.campaign import campaign_results, result_folders, results_of, results_of_runs
from trainmark.errors import InputError, TrainmarkError
from trainmark.insight import judged
from trainmark.schema.results import Results
from trainmark.store import Store, StoredCampaign, database_url, existing_store, require_database

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_KEY = 80
_LONGEST_NUMBER = 10
"""Numbers of campaigns have fewer digits: databases refuse larger ones with an error of their own."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign: ``key`` is its page's name, ``source`` what a reader calls it, ``folder`` that of its runs.

    ``key`` has only letters, digits, ``-`` and ``_``, so it is safe as a file's name and in an address. ``results``
    are judged. ``folder`` may not exist.
    """

    key: str
    source: str
    results: Results
    folder: Path


class Source(Protocol):
    """The campaigns of a site, in the order of their keys' list."""

    name: str

    def keys(self) -> Sequence[str]:
        """Return the key of each campaign."""

    def campaign(self, key: str) -> Campaign:
        """Return a campaign; raise ``InputError`` if there is none with this key."""

    def close(self) -> None:
        """Release what is open."""


class DirectorySource:
    """A result directory, or a directory of those."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder
        # A path that is wrong is reported at once.
        self._folders()

    def keys(self) -> Sequence[str]:
        """Return the key of each result directory, from its name."""
        return list(self._folders())

    def folder(self, key: str) -> Path:
        """Return the result directory of a key; raise ``InputError`` if there is none."""
        folders = self._folders()
        if key not in folders:
            raise InputError(f"{self.name}: no result directory is called {key}")
        return folders[key]

    def campaign(self, key: str) -> Campaign:
        """Return the campaign of a directory."""
        folder = self.folder(key)
        return Campaign(key, folder.resolve().name, judged(results_of(folder)), folder)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _folders(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder in result_folders(self._folder):
            name = _UNSAFE.sub("_", folder.resolve().name)[:_LONGEST_KEY] or "results"
            number = 2
            key = name
            while key in found:
                key, number = f"{name}-{number}", number + 1
            found[key] = folder
        return found


class StoreSource:
    """The campaigns of a database; ``address`` is a SQLite file or a URL."""

    def __init__(self, address: str) -> None:
        # The URL as a reader may see it: without a password.
        url = database_url(address)
        self.name = str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()
        self.address = address
        self.store: Store = existing_store(address)

    def keys(self) -> Sequence[str]:
        """Return the key of each campaign, from its number."""
        return [f"c{one.id}" for one in self.store.campaigns()]

    def campaign(self, key: str) -> Campaign:
        """Return a campaign with its results."""
        number = key.removeprefix("c")
        if not (
            key.startswith("c") and number.isascii() and number.isdigit() and len(number) < _LONGEST_NUMBER
        ):
            raise InputError(f"{self.name}: no campaign is called {key}")
        found = self.store.stored_campaign(int(number))
        if found is None:
            raise InputError(f"{self.name}: no campaign is called {key}")
        results, folder = campaign_results(self.store, found, self.address)
        return Campaign(key, _name_of(found), results, folder)

    def some(self, cases: Mapping[int, Set[str]]) -> Iterator[Campaign]:
        """Yield campaigns by their numbers, with some cases each; those that this version cannot read are left out."""
        for found, stored in self.store.runs_of_several(cases):
            try:
                results, folder = results_of_runs(stored, found, self.address, cases[found.id])
            except TrainmarkError:
                continue
            yield Campaign(f"c{found.id}", _name_of(found), results, folder)

    def close(self) -> None:
        """Close the database."""
        self.store.close()


def _name_of(campaign: StoredCampaign) -> str:
    return f"{campaign.suite} #{campaign.id}"


def open_source(address: str) -> DirectorySource | StoreSource:
    """Open a result directory, a directory of those, or a database; raise ``InputError`` for anything else."""
    if Path(address).is_dir():
        return DirectorySource(Path(address))
    require_database(address)
    return StoreSource(address)


def campaigns_of(source: Source) -> Iterator[Campaign]:
    """Yield every campaign of a source."""
    for key in source.keys():  # noqa: SIM118 - a method, not a dictionary's
        yield source.campaign(key)
