"""A site's pages as a reader of links finds them, and as a browser shows them."""

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Links(HTMLParser):
    """The ids, links and loaded files of a page, and its elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.unmatched: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if tag == "a":
            self.links.append(found.get("href") or "")
        for name in ("src", "data", "poster", "srcset", "action"):
            if name in found:
                self.loaded.append(found[name] or "")
        if tag == "link":
            self.loaded.append(found.get("href") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unmatched.append(tag)


def pages_of(folder: Path) -> dict[str, Links]:
    """Return every page of a site by its path."""
    return {
        path.relative_to(folder).as_posix(): Links(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }


def broken(folder: Path) -> Iterator[str]:
    """Yield every link of a site that leads nowhere, and every element that is not closed."""
    pages = pages_of(folder)
    for name, page in pages.items():
        yield from (f"{name}: <{tag}> does not match" for tag in (*page.unmatched, *page.open))
        for href in (*page.links, *page.loaded):
            path, _, anchor = href.partition("#")
            target = ((folder / name).parent / unquote(path)).resolve() if path else folder / name
            if not target.is_file() or not target.is_relative_to(folder.resolve()):
                yield f"{name}: {href} leads to no file"
                continue
            known = pages.get(target.resolve().relative_to(folder.resolve()).as_posix())
            if anchor and (known is None or anchor not in known.ids):
                yield f"{name}: {href} leads to no place"


def alone(folder: Path, name: str, more: str = "") -> str:
    """Return a page with its style and script in it, so that it can be shown in a frame; ``more`` is put at its end."""
    text = (folder / name).read_text(encoding="utf-8")
    style = (folder / "assets" / "site.css").read_text(encoding="utf-8")
    script = (folder / "assets" / "site.js").read_text(encoding="utf-8")
    text = re.sub(r"<meta http-equiv[^>]*>", "", text)
    text = re.sub(r"<link rel=\"stylesheet\"[^>]*>", lambda _: f"<style>{style}</style>", text)
    text = re.sub(r"<script defer[^>]*></script>", "", text)
    return text.replace("</body>", f"<script>{script}</script>{more}</body>")


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour ``#rrggbb`` (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def colours(style: str) -> Iterable[dict[str, str]]:
    """Yield the colours that the style sheet names, for light and for dark pages."""
    for block in re.findall(r":root \{([^}]*)\}", style):
        found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        if "ink" in found and "link" in found:
            yield found
