"""A real browser to look at a page with: what it draws, what it complains about, and which cells are cut off."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not there: no real browser can look at the page"
)

WINDOWS = (("page", 400), ("page", 800), ("page", 1300), ("printed", 717))
"""What a page is looked at in; 717 pixels lie between the margins of A4 paper."""

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
  return { name: location.hash.slice(1), width, found };
}
addEventListener("load", () => setTimeout(() => parent.postMessage(clipped(), "*"), 6000));
</script>
"""


def open_page(page: Path) -> tuple[str, list[str]]:
    """Return the page's elements after its scripts have run, and what the browser complained of."""
    assert CHROMIUM is not None
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=20000",
        "--window-size=1400,900", f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def cut_off(text: str, folder: Path) -> dict[str, list[str]]:
    """Return which cells and pictures of a page are not seen whole in windows of three widths, and on A4 paper."""
    (folder / "page.html").write_text(text.replace("</body>", f"{_LOOK}</body>"), encoding="utf-8")
    assert text.count("@media print") == 1
    printed = text.replace("@media print", "@media all").replace("</body>", f"{_LOOK}</body>")
    (folder / "printed.html").write_text(printed, encoding="utf-8")
    # A window cannot be as narrow as a phone: the page stands in frames.
    frames = "".join(
        f'<iframe src="{name}.html#{name}-{width}" style="border:0;width:{width}px;height:900px"></iframe>'
        for name, width in WINDOWS
    )
    outer = folder / "outer.html"
    outer.write_text(f'<!DOCTYPE html><body style="margin:0">{_LISTEN}{frames}</body>', encoding="utf-8")
    seen, _ = open_page(outer)
    told = re.search(r"<title>(.*?)</title>", seen)
    assert told, "the page did not get as far as to be looked at"
    looked = {one["name"]: one for one in json.loads(unescape(told[1]))}
    assert set(looked) == {f"{name}-{width}" for name, width in WINDOWS}
    assert all(abs(one["width"] - int(name.split("-")[1])) <= 20 for name, one in looked.items())
    return {name: one["found"] for name, one in looked.items()}
