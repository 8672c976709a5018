"""``python -m pellucid_bench.site.check DIR``: does what was built hold together?

Owns: reading the built pages: where their links lead, what they load, and what a reader who cannot see them is told.
Must not: look anything up on the network.
Read next: ``pages.py``.
"""

from __future__ import annotations

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from pellucid_bench.site.contrast import browsed, faint_texts

__all__ = ["check_search", "check_site"]

_LOADS = {"script": "src", "img": "src", "iframe": "src", "video": "src", "audio": "src", "source": "src", "object": "data"}


class _Page(HTMLParser):
    """The ids of one page, the links it has, what it loads by itself, and what is missing for those who hear it read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.unheard: list[str] = []
        self.levels: list[int] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag == "img" and "alt" not in dict(attrs):
            self.unheard.append(f"shows {values.get('src', 'a picture')} without a text for it (alt)")
        if tag == "html" and "lang" not in values:
            self.unheard.append("does not say its language (lang)")
        if re.fullmatch("h[1-6]", tag):
            level, before = int(tag[1]), self.levels[-1] if self.levels else 0
            if level > before + 1:
                self.unheard.append(f"goes from heading {before} to heading {level}: {values.get('id', '')}")
            self.levels.append(level)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and "href" in values and values.get("rel") != "canonical":
            self.loads.append(values["href"])
        if tag in _LOADS and _LOADS[tag] in values:
            self.loads.append(values[_LOADS[tag]])


def check_site(folder: Path) -> list[str]:
    """Every fault of a built site, as sentences: links that lead nowhere, loads from another host, what no screen reader tells."""
    pages = {path.resolve(): _Page(path) for path in sorted(folder.rglob("*.html"))}
    faults = [] if pages else [f"{folder} has no pages"]
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        if name.name == "404.html":  # its addresses count from the host's root
            continue
        faults += [f"{name} {what}" for what in page.unheard]
        if page.levels.count(1) > 1:
            faults.append(f"{name} has {page.levels.count(1)} titles (h1)")
        for link in [*page.links, *page.loads]:
            if re.match(r"[a-z]+:|//", link):
                if link in page.loads and not link.startswith("data:"):
                    faults.append(f"{name} loads {link}")
                continue
            target, _, fragment = link.partition("#")
            where = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            where = where / "index.html" if where.is_dir() else where
            if not where.exists():
                faults.append(f"{name} points to {link}, which is not there")
            elif fragment and where in pages and unquote(fragment) not in pages[where].ids:
                faults.append(f"{name} points to {link}, and the page has no such place")
    for style in folder.rglob("*.css"):
        faults += [f"{style.name} loads {url}" for url in re.findall(r"url\([\"']?(https?:[^)\"']+)", style.read_text("utf-8"))]
    return faults


def check_search(folder: Path, *, query: str, page: str) -> list[str]:
    """A fault unless the search of a site that is opened from files leads from a word to a page; needs chromium."""
    shown = browsed(f"{(folder / 'index.html').resolve().as_uri()}?q={query}")
    found = re.findall(r'<a href="([^"#?]*)[^"]*" class="md-search-result__link"', shown)
    return (
        [] if any(link.endswith(page) for link in found) else [f"the search from files finds {found[:5]} for {query}, not {page}"]
    )


def main() -> None:
    """Print the faults; exit with 1 if there are any."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    faults = check_site(folder)
    if shutil.which("chromium"):
        faults += check_search(folder, query="RandomSunFlare", page="gallery/RandomSunFlare.html")
        faults += faint_texts(folder, ("index.html", "gallery/index.html", "reference/functional.html"))
    print(*faults, f"{len(list(folder.rglob('*.html')))} pages, {len(faults)} faults", sep="\n")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
