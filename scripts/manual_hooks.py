"""Hooks of the manual's build: navigation from the list of pages, sections made from the program, repaired links."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manual_reference import ROOT, section

REPOSITORY_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository's root, and their names in the manual."""
MADE = re.compile(r"<!-- made: ([\w-]+) -->.*?<!-- end of \1 -->", re.DOTALL)
LINK = re.compile(r"(\]\()(?!https?:)([^)#\s]+)((?:#[^)\s]*)?\))")
DEFINITION = re.compile(r"^(\[[^\]]+\]: )(?!https?:)([^#\s]+)(.*)$", re.MULTILINE)
ENTRY = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]+\.md)\)")
EXTERNAL = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^"' >]+"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=["']?(?:https?:)?//[^"' >]+"""
)
CHINESE = "zh-Hans"


def on_config(config: Any) -> Any:
    """Give the navigation the order of docs/README.md and its Chinese counterpart."""
    docs = Path(config["docs_dir"])
    config["nav"] = [
        {"Home": "README.md"},
        *navigation((docs / "README.md").read_text(encoding="utf-8")),
        {"中文": list(_entries((docs / "README.zh.md").read_text(encoding="utf-8"), "README.zh.md"))},
    ]
    return config


def navigation(text: str) -> list[dict[str, list[dict[str, str]]]]:
    """Return the sections of the list of pages: the words before the colon of a heading, and its links."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return [{part.partition("\n")[0].partition(":")[0]: list(_entries(part))} for part in parts]


def _entries(text: str, *first: str) -> Iterator[dict[str, str]]:
    for name in first:
        yield {"首页": name}
    for title, target in ENTRY.findall(text):
        if not target.startswith("../") and target != "README.md":
            yield {title: target}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the repository's root."""
    from mkdocs.structure.files import File

    for source, name in REPOSITORY_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(
            File.generated(config, name, content=LINK.sub(_from_root, DEFINITION.sub(_from_root, text)))
        )
    return files


def _from_root(link: re.Match[str]) -> str:
    """Return a link of a page of the root as one of a page of docs; what the manual lacks becomes plain text."""
    target = REPOSITORY_PAGES.get(link[2], link[2].removeprefix("docs/"))
    return f"{link[1]}{target}{link[3]}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the sections that are made from the program, and mend links that lead outside docs or to a folder."""
    source = page.file.src_uri
    made = MADE.sub(lambda found: section(found[1]), markdown)
    return LINK.sub(lambda link: f"{link[1]}{resolved(source, link[2])}{link[3]}", made)


def resolved(source: str, target: str) -> str:
    """Return the target of a link in page ``source``: a page of the manual."""
    folder = Path("docs", source).parent
    path = os.path.normpath(folder / target)
    if path in REPOSITORY_PAGES:
        return os.path.relpath(Path("docs", REPOSITORY_PAGES[path]), folder)
    if (ROOT / path).is_dir() and path.startswith("docs/"):
        return f"{target.rstrip('/')}/README.md"
    return target


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Name the language of a Chinese page; refuse a page that would load something from another server."""
    loaded = EXTERNAL.findall(output)
    if loaded:
        raise SystemExit(
            f"{page.file.src_uri}: the manual opens without a network, but would load {loaded[0]}"
        )
    if page.file.src_uri.endswith(".zh.md"):
        return output.replace('<html lang="en"', f'<html lang="{CHINESE}"', 1)
    return output
