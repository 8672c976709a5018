"""Notebooks of the guide: a page whose blocks draw something, executed while the site is built.

``python -m pellucid_bench.site.notebooks [NAME ...]`` writes those of ``examples/notebooks`` anew.

Owns: reading a page as cells, running them, and the form of a notebook file.
Must not: import MkDocs or Jupyter; a notebook is JSON (https://nbformat.readthedocs.io, version 4.5).
Read next: ``hooks.py``.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid_bench.site.pages import ROOT

__all__ = ["NOTEBOOKS", "Executed", "execute", "has_pictures", "to_open_anywhere"]

NOTEBOOKS = {
    "start": ("start", "Start"),
    "detection": ("detection", "Train a detector"),
    "segmentation": ("segmentation", "Train a segmenter"),
    "learn-a-range": ("learning", "Learn a range"),
    "attack-through-a-warp": ("adversarial-warp", "Attack through a warp"),
    "local-features": ("features", "Local features"),
    "medical": ("volumes", "Medical volumes"),
    "speed": ("speed", "Make it fast"),
}
"""Files of ``examples/notebooks``: the page that each is made from, and its title."""

FOLDER = ROOT / "examples" / "notebooks"

_FENCE = re.compile(r"^```(?P<kind>[a-z]*)\n(?P<body>.*?)^```\n?", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Executed:
    """A page that was run.

    Args:
        page: its Markdown, with each picture below the block that drew it.
        notebook: the content of its ``.ipynb``.
        pictures: PNG files by name; they lie beside the notebook.
    """

    page: str
    notebook: str
    pictures: dict[str, bytes]


def has_pictures(markdown: str) -> bool:
    """Whether a page has blocks of Python, and pictures: shown by a block, or linked."""
    return "```python\n" in markdown and any(shown in markdown for shown in (".show(", "![", "\nfigure\n```"))


def execute(markdown: str, name: str, *, repository: str, run: bool = True) -> Executed:
    """Run the blocks of a page in one namespace, in an empty folder, and keep what they print and show.

    Args:
        markdown: the page's text.
        name: of the page, such as ``start``; names the files.
        repository: the address that links lead to.
        run: False makes the cells alone, without what they print and show.

    Errors:
        Whatever a block raises, with the page and the line in the traceback.
    """
    scope: dict[str, Any] = {"__name__": "__notebook__"}
    cells: list[dict[str, Any]] = [_words(f"*Made from the page [{name}]({name}.md).*", repository)]
    page: list[str] = []
    pictures: dict[str, bytes] = {}
    end = 0
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for fence in _FENCE.finditer(markdown):
                text, body = markdown[end : fence.start()], fence["body"]
                end = fence.end()
                page += [text, fence[0]]
                if fence["kind"] == "python":
                    cells.append(_words(text, repository))
                    line = markdown[: fence.start()].count("\n") + 1
                    printed, shown = _run(body, scope, name, line) if run else ("", [])
                    cells.append(_code(body, printed, shown))
                    for png in shown:
                        file = f"{name}-{len(pictures) + 1}.png"
                        pictures[file] = png
                        page.append(f"\n![What the block above shows](notebooks/{file})\n")
                elif fence["kind"] == "text" and cells[-1]["cell_type"] == "code" and not text.strip():
                    continue  # what was printed stands in the cell above
                else:
                    cells.append(_words(text + fence[0], repository))
        finally:
            os.chdir(before)
    cells.append(_words(markdown[end:], repository))
    page.append(markdown[end:])
    cells = [{**cell, "id": f"{name}-{i}"} for i, cell in enumerate(cell for cell in cells if cell["source"].strip())]
    kernel = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return Executed("".join(page), json.dumps(notebook, indent=1) + "\n", pictures)


def to_open_anywhere(name: str, *, run: bool = True) -> dict[str, Any]:
    """A notebook of ``NOTEBOOKS``, with a badge that opens it and a cell that installs what it needs."""
    page = NOTEBOOKS[name][0]
    done = execute((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), page, repository=_repository(), run=run)
    book: dict[str, Any] = json.loads(done.notebook)
    install = _code("%pip install --quiet 'pellucid[demo]'  # once, where it is not installed", "", [])
    book["cells"][:0] = [{**_words(_badge(name), _repository()), "id": "badge"}, {**install, "id": "install"}]
    return book


def contents() -> str:
    """The list of the notebooks, in Markdown."""
    rows = "".join(
        f"| [{title}]({name}.ipynb) | [{page}.md](../../docs/{page}.md) | {_badge(name)} |\n"
        for name, (page, title) in NOTEBOOKS.items()
    )
    return (
        "# Notebooks\n\nEach is a page of the guide, run from top to bottom, with its prints and pictures. They fetch no data.\n"
        f"`make notebooks` writes them anew from their pages.\n\n| notebook | made from | open |\n|---|---|---|\n{rows}"
    )


def _repository() -> str:
    found = re.search(r"repository: (\S+)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _badge(name: str) -> str:
    colab = "https://colab.research.google.com"
    place = f"{colab}/github/{_repository().removeprefix('https://github.com/')}/blob/main/examples/notebooks/{name}.ipynb"
    return f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({place})"


def _run(body: str, scope: dict[str, Any], name: str, line: int) -> tuple[str, list[bytes]]:
    """What a block prints, and the pictures among the values of its expressions."""
    tree, stream, shown = ast.parse("\n" * line + body), io.StringIO(), []
    with contextlib.redirect_stdout(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in tree.body:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), f"{name}.md", "eval"), scope)
                shown += list(_pictures(value))
            else:
                exec(compile(ast.Module([statement], []), f"{name}.md", "exec"), scope)
    return stream.getvalue(), shown


def _pictures(value: Any) -> Iterator[bytes]:
    from matplotlib.figure import Figure

    if isinstance(value, Figure):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", dpi=80)
        yield buffer.getvalue()


def _words(text: str, repository: str) -> dict[str, Any]:
    def absolute(link: re.Match[str]) -> str:
        place = f"{repository}/{'raw' if link['image'] else 'blob'}/main/docs/{link['target']}"
        return f"{link['image']}[{link['text']}]({place})"

    return {"cell_type": "markdown", "metadata": {}, "source": _LINK.sub(absolute, text.strip())}


def _code(body: str, printed: str, shown: list[bytes]) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    for png in shown:
        data = {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": "<Figure>"}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs, "source": body.rstrip("\n")}


def _reworded(name: str, file: Path) -> dict[str, Any]:
    """The notebook as its page has it now, with the outputs of the file; its code must not have changed."""
    book, old = to_open_anywhere(name, run=False), json.loads(file.read_text(encoding="utf-8"))
    code, before = ([cell for cell in each["cells"] if cell["cell_type"] == "code"] for each in (book, old))
    if [cell["source"] for cell in code] != [cell["source"] for cell in before]:
        raise SystemExit(f"{name}: its code has changed; run it, without --words")
    for cell, one in zip(code, before, strict=True):
        cell["outputs"] = one["outputs"]
    return book


def main() -> None:
    """Write the notebooks named, or all of them, and their list; ``--words`` runs nothing and takes over new words alone."""
    FOLDER.mkdir(exist_ok=True)
    named = [name for name in sys.argv[1:] if name != "--words"]
    for name in named or NOTEBOOKS:
        file = FOLDER / f"{name}.ipynb"
        book = _reworded(name, file) if "--words" in sys.argv else to_open_anywhere(name)
        file.write_text(json.dumps(book, indent=1) + "\n", encoding="utf-8")
        print(file, flush=True)
    (FOLDER / "README.md").write_text(contents(), encoding="utf-8")


if __name__ == "__main__":
    main()
