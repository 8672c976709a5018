"""What MkDocs calls while it builds the site.

Owns: handing generated pages to MkDocs.
Must not: word them; ``pages.py`` does.
Read next: ``pages.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid_bench.site.pages import gallery, generated, relinked

__all__ = ["on_files", "on_page_markdown"]


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are no file of ``docs/``."""
    from mkdocs.structure.files import File

    for place, content in (*generated(config.extra["repository"]), *gallery()):
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Let links that leave ``docs/`` lead to the site's pages, or to the repository."""
    if page.file.generated_by:
        return markdown
    place = page.file.src_uri
    return relinked(markdown, source=f"docs/{place}", page=place, repository=config.extra["repository"])
