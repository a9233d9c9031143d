"""A real browser to look at a page with: what it draws, what it complains about, and which cells are cut off."""

import json
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not there: no real browser can look at the page"
)
"""For tests that take the fixture ``views``, which are marked ``browser`` by that."""

WINDOWS = (("page", 400), ("page", 800), ("page", 1300), ("printed", 717))
"""What a page is looked at in; 717 pixels lie between the margins of A4 paper."""

DARK = ("dark", 1300)
"""The window of pages that are looked at in dark mode too."""

_LISTEN = """
<script>
const told = [];
addEventListener("message", (one) => { told.push(one.data); document.title = JSON.stringify(told); });
</script>
"""

_LOOK = """
<script>
function clipped() {
  const found = [];
  const first = document.querySelector("#glance td.number")?.getBoundingClientRect().bottom ?? null;
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const width = document.documentElement.clientWidth;
  const scrolled = document.documentElement.scrollWidth;
  if (scrolled > width) found.push(`page: ${scrolled} > ${width}`);
  for (const cell of document.querySelectorAll("td, th")) {
    const style = getComputedStyle(cell), place = cell.getBoundingClientRect();
    if (!place.width) continue;
    const said = `${cell.closest("section").id}: ${cell.textContent.trim().slice(0, 40)}`;
    if (cell.scrollWidth > cell.clientWidth + 1) found.push(`${said}: wider than its cell`);
    if (place.right > width + 1 || place.left < -1) found.push(`${said}: off the page at ${place.right}`);
    const lines = place.height / parseFloat(style.lineHeight);
    const narrow = place.width < 8 * parseFloat(style.fontSize);
    if (cell.textContent.length > 40 && lines > 8 && narrow) found.push(`${said}: a word a line`);
    const short = width > 1000 && cell.matches("td:first-child") && cell.textContent.trim().length < 25;
    const own = (cell.firstElementChild ?? cell).getBoundingClientRect().height / parseFloat(style.lineHeight);
    if (short && own > 2.5) found.push(`${said}: a short name in several lines`);
  }
  for (const cell of document.querySelectorAll("#glance :is(td, th)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), word = document.createRange();
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const match of text.data.matchAll(/(?<![^\\s])[A-Za-z]+(?![^\\s])/g)) {
        word.setStart(text, match.index);
        word.setEnd(text, match.index + match[0].length);
        const lines = new Set([...word.getClientRects()].map((line) => Math.round(line.top)));
        if (lines.size > 1) found.push(`${match[0]}: broken into ${lines.size} lines`);
      }
    }
  }
  for (const row of document.querySelectorAll("tr")) {
    const places = [...row.children].map((cell) => cell.getBoundingClientRect()).filter((place) => place.width);
    const apart = (one, other) => one.right <= other.left + 1 || other.right <= one.left + 1
      || one.bottom <= other.top + 1 || other.bottom <= one.top + 1;
    if (places.some((one, i) => places.slice(i + 1).some((other) => !apart(one, other))))
      found.push(`${row.textContent.trim().slice(0, 40)}: cells overlap`);
  }
  for (const detail of document.querySelectorAll(".list .detail, [class^=fits] .detail")) {
    const cell = detail.closest("td"), place = detail.getBoundingClientRect();
    const stacked = getComputedStyle(cell).display === "grid", label = cell.getBoundingClientRect().width * 0.4;
    if (stacked && place.width && place.left < cell.getBoundingClientRect().left + label)
      found.push(`${detail.textContent}: not under its number`);
  }
  for (const picture of document.querySelectorAll("svg")) {
    if (picture.getBoundingClientRect().right > width + 1) found.push(`picture off the page`);
    const frame = picture.getBoundingClientRect();
    for (const label of picture.querySelectorAll("text")) {
      const place = label.getBoundingClientRect();
      const within = place.left >= frame.left - 1 && place.right <= frame.right + 1;
      if (place.width && !within) found.push(`picture: '${label.textContent}' is cut off`);
    }
  }
  const numbers = [...document.querySelectorAll("#glance td:nth-child(2)")]
    .filter((cell) => cell.getBoundingClientRect().bottom <= 900).length;
  const stacked = [...document.querySelectorAll("table")]
    .filter((table) => getComputedStyle(table).display !== "table").map((table) => table.closest("section").id);
  const background = getComputedStyle(document.body).backgroundColor;
  const heights = [...document.querySelectorAll(".picture svg")].map((svg) => svg.getBoundingClientRect().height);
  const bar = document.querySelector("#glance td.bar rect"), drawn = bar && getComputedStyle(bar);
  return { name: location.hash.slice(1), width, found, first, numbers, stacked, background,
    tallest: Math.max(0, ...heights), bar: drawn && [drawn.fill, Number(drawn.fillOpacity)] };
}
addEventListener("load", () => setTimeout(() => parent.postMessage(clipped(), "*"), 250));
</script>
"""


def open_page(page: Path) -> tuple[str, list[str]]:
    """Return the page's elements after its scripts have run, and what the browser complained of."""
    assert CHROMIUM is not None
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=120000",
        "--window-size=1400,900", f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def printed_pages(page: Path) -> int:
    """Return the number of pages on which a browser prints a page."""
    assert CHROMIUM is not None
    paper = page.with_suffix(".pdf")
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
        f"--user-data-dir={page.parent / 'profile'}", f"--print-to-pdf={paper}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(words, capture_output=True, check=True, timeout=300)
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", paper.read_bytes()))


@dataclass(frozen=True, slots=True)
class View:
    """What a page looks like in one window: what is not seen whole.

    ``first`` is the lower edge of the first number (px from the top), None without one; ``background`` the colour.
    ``numbers`` counts the headline numbers in the first 900 px; ``stacked`` are the sections of tables shown as lists.
    ``tallest`` is the height of the tallest chart (px), ``bar`` the colour and opacity of the bars next to the headline
    numbers, None without any.
    """

    cut_off: list[str]
    first: float | None
    numbers: int
    stacked: list[str]
    background: str
    tallest: float
    bar: tuple[str, float] | None


@dataclass(frozen=True, slots=True)
class Views:
    """Pages by their name, and by the medium and width of a window; and all that the browser complained of."""

    pages: Mapping[tuple[str, str, int], View]
    complaints: list[str]


def windows_of(name: str, dark: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Return the windows in which a page is looked at."""
    return (*WINDOWS, DARK) if name in dark else WINDOWS


def inspected(pages: Mapping[str, str], folder: Path, dark: Collection[str] = ()) -> Views:
    """Return what one browser sees of pages in windows of three widths, on A4 paper, and ``dark`` ones in dark mode."""
    # A window cannot be as narrow as a phone: the pages stand in frames.
    frames = []
    for name, text in pages.items():
        assert text.count("@media print") == 1
        assert text.count("(prefers-color-scheme: dark)") == 1
        shown = {
            "page": text,
            "printed": text.replace("@media print", "@media all"),
            "dark": text.replace("(prefers-color-scheme: dark)", "all"),
        }
        for medium, content in shown.items():
            path = folder / f"{name}.{medium}.html"
            path.write_text(content.replace("</body>", f"{_LOOK}</body>"), encoding="utf-8")
        frames += [
            f'<iframe src="{name}.{medium}.html#{name},{medium},{width}" '
            f'style="border:0;width:{width}px;height:900px"></iframe>'
            for medium, width in windows_of(name, dark)
        ]
    outer = folder / "outer.html"
    outer.write_text(
        f'<!DOCTYPE html><body style="margin:0">{_LISTEN}{"".join(frames)}</body>', encoding="utf-8"
    )
    observed, complaints = open_page(outer)
    reported = re.search(r"<title>(.*?)</title>", observed)
    assert reported, "the pages did not get as far as to be looked at"
    views: dict[tuple[str, str, int], View] = {}
    for one in json.loads(unescape(reported[1])):
        name, medium, width = one["name"].split(",")
        assert abs(one["width"] - int(width)) <= 20
        bar = (one["bar"][0], float(one["bar"][1])) if one["bar"] else None
        views[name, medium, int(width)] = View(
            one["found"], one["first"], one["numbers"], one["stacked"], one["background"], one["tallest"], bar
        )
    assert set(views) == {(name, *window) for name in pages for window in windows_of(name, dark)}
    return Views(views, complaints)
