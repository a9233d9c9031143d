"""Writing a site into a folder: every page of every language, and the files that they share."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.history import in_order
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.schema.results import StoredManifest
from trainmark.site.campaigns import Campaign, Source, campaigns_of
from trainmark.site.comparisons import comparison_section
from trainmark.site.details import detail_sections, subtitle_of
from trainmark.site.entries import with_age
from trainmark.site.evidence import environment_sections, environments_of, evidence_sections, in_all_languages
from trainmark.site.explorer import explorer
from trainmark.site.history import history_sections
from trainmark.site.index import SiteIndex
from trainmark.site.pages import Form, Frame, Page, PageKind, assets, render
from trainmark.site.references import reference_sections

POLICY = "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src 'self' data:"
"""A page may load its style and its script, and nothing else; ``file:`` is for pages opened without a server."""

_ROOT = {Language.EN: "../", Language.ZH: "../../"}
"""The relative address of the site's root from a campaign's page."""

MENU = (PageKind.RESULTS, PageKind.COMPARE, PageKind.HISTORY, PageKind.REFERENCES)


@dataclass(frozen=True, slots=True)
class SiteSize:
    """The contents of a written site: campaigns, results, files, and their bytes."""

    campaigns: int
    results: int
    files: int
    bytes: int


def write_site(source: Source, out: Path) -> SiteSize:
    """Write the pages of a source's results into ``out``; raise ``InputError`` if it has other files.

    Each campaign's page is rendered as soon as it is read, so that only what the tables need stays in memory.
    """
    writer = _Writer(out)
    index, written = SiteIndex(), set[str]()
    for campaign in campaigns_of(source):
        index.add(campaign)
        writer.write_all(f"results/{campaign.key}.html", partial(detail_page, campaign))
        writer.write_once(f"evidence/{campaign.key}.html", evidence_page(campaign))
        for name, manifest in environments_of(campaign).items():
            if name not in written:
                written.add(name)
                writer.write_once(f"environments/{name}.html", environment_page(name, manifest))
    if not index.entries:
        raise InputError(f"{source.name}: no campaign has a case")
    pairs = [(source.campaign(one), source.campaign(other)) for one, other in index.newest_pairs()]
    writer.write_all("index.html", partial(results_page, index))
    writer.write_all("compare.html", partial(_newest_pairs_page, pairs))
    writer.write_all("history.html", partial(history_page, index))
    writer.write_all("references.html", partial(references_page, index.models))
    for name, text in assets().items():
        writer.write_file(name, text)
    return SiteSize(len(index.suites), len(index.entries), writer.files, writer.bytes)


def results_page(index: SiteIndex, language: Language) -> Page:
    """Return the page with the table of all results."""
    say = catalogue(language)
    campaigns = say.count("campaigns", len(index.suites))
    lead = say("site_lead", results=len(index.entries), campaigns=campaigns)
    return Page(say("menu_index"), lead, explorer=explorer(with_age(index.entries), say))


def evidence_page(campaign: Campaign, logs: str | None = None) -> Page:
    """Return the page with the log lines and commands of one campaign; see ``evidence_sections``."""
    lead = in_all_languages("evidence_lead")
    return Page(_title(campaign, catalogue(Language.EN)), lead, evidence_sections(campaign, logs))


def environment_page(name: str, manifest: StoredManifest) -> Page:
    """Return the page with every fact of an environment."""
    return Page(f"{in_all_languages('environment_title')} {name}", "", environment_sections(manifest))


def detail_page(campaign: Campaign, language: Language) -> Page:
    """Return the page of one campaign."""
    return Page(
        _title(campaign, catalogue(language)),
        subtitle_of(campaign, language),
        detail_sections(campaign, language, _ROOT[language]),
    )


def _title(campaign: Campaign, say: Catalogue) -> str:
    """Return the suite, and what a reader calls the campaign unless that begins with the suite already."""
    suite, source = campaign.results.suite, campaign.source
    return source if source.startswith(suite) else say("campaign_title", suite=suite, source=source)


def comparison_page(
    pairs: Sequence[tuple[Campaign, Campaign]], language: Language, lead: str, form: Form | None = None
) -> Page:
    """Return the page that compares pairs of campaigns: the earlier and the later one."""
    say = catalogue(language)
    sections = tuple(comparison_section(one, other, language) for one, other in pairs)
    return Page(say("menu_compare"), lead if sections or form else say("no_pairs"), sections, form=form)


def _newest_pairs_page(pairs: Sequence[tuple[Campaign, Campaign]], language: Language) -> Page:
    return comparison_page(pairs, language, catalogue(language)("compare_lead"))


def history_page(index: SiteIndex, language: Language) -> Page:
    """Return the page of results over time."""
    say = catalogue(language)
    points = in_order(index.points)
    sections = history_sections(points, index.times, index.suites, language)
    return Page(say("menu_history"), say("history_lead"), sections)


def references_page(models: Collection[str], language: Language) -> Page:
    """Return the page of published figures."""
    say = catalogue(language)
    return Page(say("menu_references"), say("references_lead"), reference_sections(models, language))


class _Writer:
    """Writes the pages below a folder, and counts them."""

    def __init__(self, out: Path) -> None:
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: is not a folder; give another --out")
        if out.is_dir() and any(out.iterdir()) and not (out / "assets" / "site.js").is_file():
            raise InputError(f"{out}: has files that are not of a site; give another --out")
        self._out = out
        self.files = self.bytes = 0

    def write_all(self, path: str, page: Callable[[Language], Page]) -> None:
        """Write a page in every language."""
        for language in Language:
            folder = "" if language is Language.EN else f"{language.value}/"
            text = render(page(language), Frame(language, path, MENU, POLICY))
            self.write_file(f"{folder}{path}", text)

    def write_once(self, path: str, page: Page) -> None:
        """Write a page that is the same in every language."""
        self.write_file(path, render(page, Frame(Language.EN, path, MENU, POLICY, once=True)))

    def write_file(self, name: str, text: str) -> None:
        """Write a file."""
        path = self._out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode("utf-8")
        write_atomically(path, content)
        self.files += 1
        self.bytes += len(content)
