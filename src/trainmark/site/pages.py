"""Rendering a site's pages: one template for files and for a server, with the report's blocks, style and script."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files

from jinja2 import Environment

from trainmark.report.blocks import Chart, Section
from trainmark.report.drawing import PALETTE
from trainmark.report.language import Language, catalogue
from trainmark.report.writing import fitted, page_environment, page_script, page_style, pictures_of
from trainmark.site.explorer import Explorer, columns

STYLE, SCRIPT = "assets/site.css", "assets/site.js"
"""The files that every page loads, relative to the site's root."""


class PageKind(StrEnum):
    """The pages that the site's menu has; the value is the file's name without its suffix."""

    RESULTS = "index"
    COMPARE = "compare"
    HISTORY = "history"
    REFERENCES = "references"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class Frame:
    """The surroundings of a page: its language, its path within the language, the menu, and its policy.

    ``path`` is relative and has ``/`` as its only separator. ``policy`` is the page's Content-Security-Policy; None if
    a server sends it. ``once``: the page is the same in every language.
    """

    language: Language
    path: str
    menu: tuple[PageKind, ...]
    policy: str | None = None
    once: bool = False

    @property
    def up(self) -> str:
        """The relative address of the folder with this language's pages."""
        return "../" * self.path.count("/")

    @property
    def root(self) -> str:
        """The relative address of the site's root."""
        return self.up + ("" if self.language is Language.EN else "../")

    def other(self, language: Language) -> str:
        """Return the relative address of this page in another language."""
        folder = "" if language is Language.EN else f"{language.value}/"
        return f"{self.root}{folder}{self.path}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page's contents: the sections, and on some pages the table of all results, a form, or live numbers."""

    title: str
    lead: str
    sections: tuple[Section, ...] = ()
    explorer: Explorer | None = None
    form: "Form | None" = None
    live: bool = False
    paging: "Paging | None" = None
    stream: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A list in a form: its name in the address, its title, its options (value, text), and the chosen value."""

    name: str
    title: str
    options: tuple[tuple[str, str], ...]
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A form whose choices a server finds in the address."""

    choices: tuple[Choice, ...]
    submit: str


@dataclass(frozen=True, slots=True)
class Paging:
    """A part of a long table: how many rows come before it, how many there are, and the addresses of its neighbours."""

    first: int
    last: int
    total: int
    newer: str | None
    older: str | None
    chosen: dict[str, str] = field(default_factory=dict)


def render_sections(sections: tuple[Section, ...], language: Language) -> str:
    """Return sections as a part of a page's HTML, as a live page replaces them."""
    say = catalogue(language)
    shown = fitted(sections, say)
    charts = [block for section in shown for block in section.blocks if isinstance(block, Chart)]
    template = _environment().get_template("sections.html.j2")
    return template.render(sections=shown, say=say, pictures=pictures_of(charts))


def render(page: Page, frame: Frame) -> str:
    """Return a page as HTML."""
    say = catalogue(frame.language)
    sections = fitted(page.sections, say)
    charts = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
    return (
        _environment()
        .get_template("site.html.j2")
        .render(
            page=page,
            frame=frame,
            sections=sections,
            say=say,
            languages=[one for one in Language if one is not frame.language and not frame.once],
            pictures=pictures_of(charts),
            style=STYLE,
            script=SCRIPT,
        )
    )


@cache
def _environment() -> Environment:
    return page_environment("trainmark.site")


def _labels(language: Language) -> str:
    """Return the rules with the label of each cell where the table of results is a list of its rows."""
    titles = (column.title for column in columns(catalogue(language)))
    return "\n".join(
        f":lang({language.tag}) [data-entries] td:nth-child({place})::before {{ content: {_css_text(title)}; }}"
        for place, title in enumerate(titles, start=1)
    )


def _css_text(words: str) -> str:
    """Return a CSS string; unlike in JSON, ``\\u`` is no escape there."""
    return json.dumps(words, ensure_ascii=False)


def assets() -> dict[str, str]:
    """Return the files that all pages share, by their path in the site."""
    own = files(__package__) / "page"
    names = ("site.css", "plot.js", "site.js")
    style, *scripts = ((own / name).read_text(encoding="utf-8") for name in names)
    labels = "\n".join(["@container (max-width: 60rem) {", *map(_labels, Language), "}"])
    colours = f"const PALETTE = {json.dumps(PALETTE)};"
    return {
        STYLE: f"{page_style()}\n{style}\n{labels}",
        SCRIPT: "\n".join(['"use strict";', page_script(), colours, *scripts]),
    }
