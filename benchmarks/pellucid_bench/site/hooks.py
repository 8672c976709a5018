"""What MkDocs calls while it builds the site.

Owns: handing generated pages and notebooks to MkDocs.
Must not: word them; ``pages.py`` and ``notebooks.py`` do.
Read next: ``pages.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pellucid_bench.site.catalogue import catalogue
from pellucid_bench.site.notebooks import NOTEBOOKS, Executed, execute, has_pictures
from pellucid_bench.site.pages import generated, relinked

__all__ = ["chapters", "on_files", "on_page_markdown"]

_CHAPTERS = ("Start", "Guide")
_EXECUTED: dict[str, Executed] = {}
"""By the page's place on the site."""


def chapters(nav: Any) -> list[str]:
    """The chapters under *Start* and *Guide*, of the navigation as ``mkdocs.yml`` has it."""
    found = re.findall(r"[\w/-]+\.md", str([part[name] for part in nav for name in part if name in _CHAPTERS]))
    return [place for place in found if place != "index.md"]


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are no file of ``docs/``, and the notebooks of those that show something."""
    from mkdocs.structure.files import File

    repository = config.extra["repository"]
    for place in dict.fromkeys([*chapters(config.nav), *(f"{page}.md" for page, _ in NOTEBOOKS.values())]):
        markdown = Path(config.docs_dir, place).read_text(encoding="utf-8")
        if has_pictures(markdown):
            name = place.removesuffix(".md")
            done = _EXECUTED[place] = execute(markdown, name, repository=repository)
            for file, content in {f"{name}.ipynb": done.notebook, **done.pictures}.items():
                files.append(File.generated(config, f"notebooks/{file}", content=content))
    for made, what in (*generated(repository), *catalogue()):
        files.append(File.generated(config, made, content=what))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Show what the blocks drew, and let links that leave ``docs/`` lead to the site's pages, or to the repository."""
    if page.file.generated_by:
        return markdown
    place = page.file.src_uri
    if place in _EXECUTED:
        head, rest = _EXECUTED[place].page.split("\n", 1)
        markdown = f"{head}\n\n[This page as a notebook](notebooks/{place.removesuffix('.md')}.ipynb), with its results.\n{rest}"
    return relinked(markdown, source=f"docs/{place}", page=place, repository=config.extra["repository"])
