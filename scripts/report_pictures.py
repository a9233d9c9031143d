#!/usr/bin/env python3
"""Write docs/pictures/NAME-WIDTH.png: the first screen of reports and of the site of stored results, by Chromium.

    .venv/bin/python scripts/report_pictures.py [NAME ...]

It needs chromium and Pillow. Results are shown that are complete and name the program of every run; ``site`` is the
site of all, also dark. The example is a sample of the tests, whose figures are made up. The digests of what the
pictures show are in docs/pictures/shown.json; a test compares them with today's pages.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.report import render_html
from trainmark.schema.results import Results
from trainmark.site import open_source, write_site
from trainmark.store import read_results

if TYPE_CHECKING:
    from PIL import Image

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOWN = ("demo", "makemore", "frameworks", "h200-language", "cluster-ssh")
"""``make demo``, a program of somebody else, six frameworks, language models, and a scaling table of four hosts."""
SITE = "site"
EXAMPLES = {"example-precisions": "precisions_of_two_frameworks"}
"""The samples of tests/report by the names of their pictures."""
SIZES = ((1300, 900), (400, 900))
LEAST_WINDOW = 520
"""Chromium's windows are not narrower: a narrow page is shown in a frame, and the picture is cut."""
COLOURS, PLOT_COLOURS = 64, 256


FIRST_SCREEN = re.compile(r'<section id="(?!glance)')


def results_of(name: str) -> Results:
    """Return a stored result, or an example."""
    if name not in EXAMPLES:
        return read_results(DOCS / "results" / name / "results.json")
    sys.path.append(str(DOCS.parent / "tests" / "report"))
    made: Results = getattr(import_module("sample_results"), EXAMPLES[name])()
    return made


def page_of(name: str) -> str:
    """Return the report of a stored result or of an example as a page."""
    return render_html(results_of(name), DOCS / "results" / name)


def first_screen(name: str) -> str:
    """Return the text of a report's first screen: what precedes the section after the glance."""
    page = page_of(name)
    body = page[page.index("<body") :]
    end = FIRST_SCREEN.search(body)
    text = re.sub(
        r"<(script|style)\b.*?</\1>|<[^>]+>", " ", body[: end.start() if end else None], flags=re.DOTALL
    )
    return " ".join(text.split())


def site_screen() -> str:
    """Return what the site's first screen shows: its words above the tables, and the results that are plotted."""
    with tempfile.TemporaryDirectory() as made:
        page = _site(Path(made)).read_text(encoding="utf-8")
    body = page[page.index("<body") : page.index('<section id="table"')]
    return " ".join([*re.sub(r"<[^>]+>", " ", body).split(), *re.findall(r'data-[vy]="[^"]*"', page)])


def _site(folder: Path) -> Path:
    """Write the site of the stored results; return its first page."""
    write_site(open_source(str(DOCS / "results")), folder)
    return folder / "index.html"


def main(names: list[str]) -> int:
    """Write the pictures of ``names``, by default of all; return the exit code."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.stderr.write("chromium is not installed\n")
        return 1
    for name in names or (*SHOWN, *EXAMPLES, SITE):
        if name == SITE:
            _show_site(browser)
            continue
        results = results_of(name)
        runs = [run for case in results.cases for run in case.runs]
        if not results.complete or any(run.measurement is not None and run.identity is None for run in runs):
            sys.stderr.write(f"{name}: unfinished, or the program of some run is unknown\n")
            return 1
        page = page_of(name)
        for width, height in SIZES:
            path = DOCS / "pictures" / f"{name}-{width}.png"
            with tempfile.TemporaryDirectory() as made:
                (Path(made) / "page.html").write_text(page, encoding="utf-8")
                _picture(browser, Path(made) / "page.html", width, height).save(path, optimize=True)
            sys.stderr.write(f"wrote {path}\n")
        _note(name, first_screen(name))
    return 0


def _show_site(browser: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        page = _site(Path(made))
        for width, height, dark in (*((*size, False) for size in SIZES), (*SIZES[0], True)):
            path = DOCS / "pictures" / f"{SITE}{'-dark' if dark else ''}-{width}.png"
            _picture(browser, page, width, height, dark, PLOT_COLOURS).save(path, optimize=True)
            sys.stderr.write(f"wrote {path}\n")
    _note(SITE, site_screen())


def _note(name: str, shown: str) -> None:
    """Store the digest of what a page's pictures show."""
    path = DOCS / "pictures" / "shown.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[name] = hashlib.sha256(shown.encode()).hexdigest()
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _picture(
    browser: str, page: Path, width: int, height: int, dark: bool = False, colours: int = COLOURS
) -> "Image.Image":
    from PIL import Image

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        frame = f'<iframe src="{page.as_uri()}" style="border:0;width:{width}px;height:{height}px"></iframe>'
        (folder / "frame.html").write_text(f'<!DOCTYPE html><body style="margin:0">{frame}', encoding="utf-8")
        words = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--window-size={max(width, LEAST_WINDOW)},{height}", f"--user-data-dir={folder / 'profile'}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            "--virtual-time-budget=5000", f"--screenshot={folder / 'picture.png'}", (folder / "frame.html").as_uri(),
        ]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, timeout=300)
        with Image.open(folder / "picture.png") as picture:
            whole = picture.convert("RGB").crop((0, 0, width, height))
    return whole.quantize(colours)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
