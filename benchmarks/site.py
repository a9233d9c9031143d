"""Size of a site of many results, and how fast a browser has its table ready.

    python benchmarks/site.py [--campaigns 100]

The campaigns are those of docs/results/h200 on successive days, each with another level. Chromium opens the table from
its file; the time is from the start of the navigation to the end of its scripts (``loadEventEnd``), the median of 5.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

from trainmark.site import open_source, write_site

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "h200" / "results.json"
OPENINGS = 5
_MEASURE = """<script>
addEventListener("load", () => setTimeout(() => {
  document.title = JSON.stringify(performance.getEntriesByType("navigation")[0].loadEventEnd);
}));
</script></body>"""


def on_day(document: dict[str, Any], day: int) -> dict[str, Any]:
    """Return the results of another day, whose numbers differ by up to 2 %."""
    factor = 1 + 0.02 * ((day * 7) % 11 - 5) / 5
    changed: dict[str, Any] = json.loads(json.dumps(document))
    moved_to = datetime.fromisoformat(changed["generated_at"]) + timedelta(days=day)
    # Findings are computed again from the changed numbers.
    changed |= {"suite": "nightly", "findings": None, "generated_at": moved_to.isoformat()}
    for case in changed["cases"]:
        for run in case["runs"]:
            if run["started_at"]:
                moved = datetime.fromisoformat(run["started_at"]) + timedelta(days=day)
                run["started_at"] = moved.astimezone(UTC).isoformat()
            if run["measurement"]:
                run["measurement"]["throughput"] *= factor
                run["measurement"]["window_s"] /= factor
                times = run["measurement"]["step_times"] or {}
                run["measurement"]["step_times"] = {
                    name: value / factor for name, value in times.items()
                } or None
        if case["estimate"]:
            for key in ("median", "mean", "minimum", "maximum", "std"):
                case["estimate"][key] = case["estimate"][key] and case["estimate"][key] * factor
            for key in ("low", "high") if case["estimate"]["interval"] else ():
                case["estimate"]["interval"][key] *= factor
    return changed


def make_results(folder: Path, campaigns: int) -> None:
    """Write the results of so many days into a folder."""
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    for day in range(campaigns):
        (folder / f"day-{day:04}").mkdir(parents=True)
        text = json.dumps(on_day(document, day))
        (folder / f"day-{day:04}" / "results.json").write_text(text, encoding="utf-8")


def opened_s(page: Path, chromium: str) -> float:
    """Return how long a browser needs until the page and its scripts are done, in seconds."""
    copy = page.with_name("opened.html")
    copy.write_text(
        re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8")).replace("</body>", _MEASURE),
        encoding="utf-8",
    )
    words = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--window-size=1300,900",
    ]
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [*words, f"--user-data-dir={profile}", "--timeout=20000", "--dump-dom", copy.as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    copy.unlink()
    found = re.search(r"<title>([\d.]+)</title>", unescape(done.stdout))
    assert found, "the page was not opened"
    return float(found[1]) / 1000


def main() -> int:
    """Print the size and the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=100)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        make_results(Path(folder) / "results", chosen.campaigns)
        written = write_site(open_source(str(Path(folder) / "results")), Path(folder) / "site")
        print(f"{written.results} results: {written.files} files, {written.bytes / 1e6:.2f} MB (budget 5 MB)")
        if chromium is None:
            print("chromium is not installed: the pages are not opened")
            return 0
        times = [opened_s(Path(folder) / "site" / "index.html", chromium) for _ in range(OPENINGS)]
        print(f"index.html opened in {median(times):.2f} s (budget 1 s)")
    return 0 if written.bytes < 5e6 and median(times) < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
