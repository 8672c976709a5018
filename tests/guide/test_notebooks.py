"""Pages of the guide that show something become notebooks, with what their blocks print and draw."""

import base64
import json
import re

import pytest

from tests.guide.pages import DOCS, blocks

notebooks = pytest.importorskip("pellucid_bench.site.notebooks")
pytest.importorskip("matplotlib")

PAGE = """# Title

Words with a [link](seeds.md#here).

```python
x = 2
print(x)
```

```text
2
```

```sh
pellucid doctor
```

```python
import matplotlib.figure

matplotlib.figure.Figure(figsize=(1, 1))
```

The end.
"""


def test_cells_results_and_pictures():
    done = notebooks.execute(PAGE, "some", repository="https://host/repo")
    book = json.loads(done.notebook)
    kinds = [(cell["cell_type"], cell["source"].splitlines()[0]) for cell in book["cells"]]
    assert kinds == [
        ("markdown", "*Made from the page [some](https://host/repo/blob/main/docs/some.md).*"),
        ("markdown", "# Title"),
        ("code", "x = 2"),
        ("markdown", "```sh"),
        ("code", "import matplotlib.figure"),
        ("markdown", "The end."),
    ]
    assert "(https://host/repo/blob/main/docs/seeds.md#here)" in book["cells"][1]["source"]
    assert book["cells"][2]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    (shown,) = book["cells"][4]["outputs"]
    assert base64.b64decode(shown["data"]["image/png"]) == done.pictures["some-1.png"]
    assert done.pictures["some-1.png"].startswith(b"\x89PNG")
    at = done.page.index("notebooks/some-1.png")
    assert done.page.index("Figure(") < at < done.page.index("The end.")
    assert done.page.replace("\n![What the block above shows](notebooks/some-1.png)\n", "") == PAGE


def test_the_form_is_that_of_notebooks():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbformat.validate(json.loads(notebooks.execute(PAGE, "some", repository="https://host/repo").notebook))


def test_a_block_that_fails_fails_the_build():
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.execute("one\n\n```python\n1 / 0\n```\n", "some", repository="")
    frame = caught.traceback[-1]
    assert (str(frame.path).endswith("some.md"), frame.lineno + 1) == (True, 4)


def test_chapters_with_pictures_are_found():
    hooks = pytest.importorskip("pellucid_bench.site.hooks")
    nav = [{"Start": ["index.md", {"Five": "start.md"}]}, {"Gallery": "gallery/index.md"}, {"Guide": [{"A": "targets.md"}]}]
    assert hooks.chapters(nav) == ["start.md", "targets.md"]
    shown = {path.name for path in DOCS.glob("*.md") if notebooks.has_pictures(path.read_text())}
    drawing = ("start", "learning", "features", "targets", "mixing", "policies", "views", "corruptions", "worst-case")
    assert shown >= {f"{page}.md" for page in drawing}


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_files_are_up_to_date_with_their_pages(name):
    found = json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    fresh = notebooks.to_open_anywhere(name, run=False)
    shown = [cell.pop("outputs", []) for book in (found, fresh) for cell in book["cells"]]
    assert found == fresh, f"python -m pellucid_bench.site.notebooks --words {name}"
    outputs = [output for cell in shown for output in cell]
    printed = [output["text"] for output in outputs if output["output_type"] == "stream"]
    assert {text for kind, text, _ in blocks(f"{notebooks.NOTEBOOKS[name][0]}.md") if kind == "text"} <= set(printed)
    assert outputs
    assert "colab.research.google.com/github/pellucid-vision/" in found["cells"][0]["source"]


def test_the_list_of_notebooks_is_up_to_date():
    assert (notebooks.FOLDER / "README.md").read_text(encoding="utf-8") == notebooks.contents()
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(notebooks.NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["start.md", "targets.md", "mixing.md", "policies.md", "views.md", "corruptions.md", "worst-case.md"]
)
def test_the_page_draws_something(page):
    pytest.importorskip("skimage")
    text = (DOCS / page).read_text()
    done = notebooks.execute(text, page.removesuffix(".md"), repository="https://host/repo")
    assert len(done.pictures) >= len(re.findall(r"^(?!.* = )\w[\w.()\[\]{}\", =]*\.show\(.*\)$", text, flags=re.MULTILINE))
    assert done.pictures or "![" in text
