"""The pages of the site that no file of ``docs/`` holds, as text.

Owns: the reference's pages, the list of decisions, the pages that lie at the repository's root, and where links lead.
Must not: import MkDocs, so that tests need none.
Read next: ``hooks.py``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

__all__ = ["PACKAGES", "ROOT", "ROOT_PAGES", "generated", "relinked"]

ROOT = Path(__file__).parents[3]
ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Files at the repository's root, and the pages they are on the site."""

PACKAGES: Mapping[str, tuple[str, str]] = {
    "pipeline": ("pellucid", "Pipelines, records, keys"),
    "transforms": ("pellucid.transforms", "Transforms"),
    "random": ("pellucid.random", "Distributions and learned numbers"),
    "functional": ("pellucid.functional", "Functions"),
    "data": ("pellucid.data", "From files to batches"),
    "corruptions": ("pellucid.corruptions", "Corruptions"),
    "policy": ("pellucid.policy", "Published policies"),
    "boxes": ("pellucid.boxes", "Boxes"),
    "detection": ("pellucid.detection", "Detection"),
    "losses": ("pellucid.losses", "Losses"),
    "nn": ("pellucid.nn", "Layers"),
    "features": ("pellucid.features", "Local features"),
    "registration": ("pellucid.registration", "Registration"),
    "views": ("pellucid.views", "Views"),
    "adversarial": ("pellucid.adversarial", "Attacks"),
    "equivariance": ("pellucid.equivariance", "Equivariance, measured"),
    "interop": ("pellucid.interop", "Other libraries' pipelines"),
    "presets": ("pellucid.presets", "Presets"),
    "export": ("pellucid.export", "Export"),
    "learn": ("pellucid.learn", "Learning augmentations"),
    "training": ("pellucid.training", "The training loop"),
    "audit": ("pellucid.audit", "The gradient audit"),
    "segments": ("pellucid.segments", "Segments, for transforms of your own"),
}
"""Page of the reference -> the package whose ``__all__`` it shows, and its title."""

_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)(?P<title>\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"(^```.*?^```[^\n]*$|``[^`]+``|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def names(page: str) -> list[str]:
    """The public names on a page of the reference: what its package lists, less what another page shows."""
    package = PACKAGES[page][0]
    listed: list[str] = list(import_module(package).__all__)
    if page != "pipeline":
        return listed
    elsewhere = {name for other in ("transforms", "random") for name in import_module(PACKAGES[other][0]).__all__} - {"Key"}
    elsewhere |= {"ALL", "VOLUMES", "functional"}
    return [name for name in listed if name not in elsewhere and not name.startswith("__")]


def generated(repository: str) -> Iterator[tuple[str, str]]:
    """(place on the site, Markdown) of every page that is no file of ``docs/``."""
    for file, page in ROOT_PAGES.items():
        path = ROOT / file
        if path.exists():
            yield page, relinked(path.read_text(encoding="utf-8"), source=file, page=page, repository=repository)
    yield "adr/index.md", _decisions()
    yield "reference/index.md", _contents()
    for page in PACKAGES:
        yield f"reference/{page}.md", _reference(page)


def relinked(markdown: str, *, source: str, page: str, repository: str) -> str:
    """The same text with links that hold on the site.

    Args:
        markdown: the text of a page.
        source: where it lies in the repository, such as ``docs/audit.md``.
        page: where it stands on the site, such as ``audit.md``.
        repository: the address that files without a page of their own are linked under.
    """

    def moved(match: re.Match[str]) -> str:
        target, _, fragment = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in ROOT_PAGES:
            place = posixpath.relpath(ROOT_PAGES[path], posixpath.dirname(page) or ".")
        elif path.rstrip("/") == "docs/adr":
            place = posixpath.relpath("adr/index.md", posixpath.dirname(page) or ".")
        elif path.startswith("docs/"):
            place = posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(page) or ".")
        else:
            place = f"{repository}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        return f"]({place}{'#' + fragment if fragment else ''}{match['title'] or ''})"

    parts = _CODE.split(markdown)
    return "".join(part if i % 2 else _LINK.sub(moved, part) for i, part in enumerate(parts))


def _decisions() -> str:
    lines = ["# Decisions", "", "Why things are as they are: one page for each decision that was open.", ""]
    for path in sorted((ROOT / "docs" / "adr").glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"* [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def _contents() -> str:
    lines = ["# Reference", "", "Every public name, from its docstring: shapes, units, ranges, gradients, errors, sources.", ""]
    for page, (package, title) in PACKAGES.items():
        lines.append(f"* [{title}]({page}.md): `{package}`, {len(names(page))} names")
    return "\n".join(lines) + "\n"


def _reference(page: str) -> str:
    package, title = PACKAGES[page]
    module = import_module(package)
    lines = [f"# {title}", "", f"`{package}`", ""]
    groups = import_module("pellucid.transforms").GROUPS if page == "transforms" else {}
    begins = {kinds[0].__name__: group for group, kinds in groups.items()}
    listed = [kind.__name__ for kinds in groups.values() for kind in kinds]
    for name in sorted(names(page), key=lambda name: listed.index(name) if name in listed else len(listed)):
        lines += [f"## {begins[name]}", ""] if name in begins else []
        if callable(getattr(module, name)):
            lines += [f"::: {package}.{name}", *(["    options:", "      heading_level: 3"] if name in listed else []), ""]
        else:
            lines += [f"## {name}", "", "```", f"{package}.{name} = {_shown(getattr(module, name))}", "```", ""]
    return "\n".join(lines)


def _shown(value: object, most: int = 400) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]} ..."
