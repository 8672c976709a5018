"""What the documentation shows runs: README blocks, and every docstring example."""

import doctest
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import torch
from PIL import Image

import pellucid

ROOT = Path(__file__).parent.parent
OPTIONAL = ("pellucid.cli",)  # commands, with requirements of their own
MODULES = [
    m.name
    for m in pkgutil.walk_packages(pellucid.__path__, "pellucid.")
    if not m.name.startswith(OPTIONAL) and "__main__" not in m.name
]


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_readme_example_runs(capsys, tmp_path, monkeypatch):
    Image.effect_noise((400, 300), 80.0).convert("RGB").save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(ROOT / "README.md")
    assert blocks
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) <= 12
        scope: dict = {}
        exec(block, scope)
    images, augment = scope["images"], scope["augment"]
    assert bool((images.grad != 0).any())
    assert all(bool(p.grad.abs() > 0) for p in augment.parameters())
    assert "Warp[0] -> Warp[1,2] + Color[3,4]" in capsys.readouterr().out


def test_readme_links_exist():
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
            assert (ROOT / link).exists(), f"{name}: {link}"
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text()):  # absolute: it is read at the package index, too
        if link.startswith("https://img.shields.io/"):
            continue
        found = re.fullmatch(
            r"https://(?:github\.com|raw\.githubusercontent\.com)/pellucid-vision/pellucid/(?:blob/)?main/(.+)", link
        )
        assert found is not None, link
        assert (ROOT / found[1]).exists(), link


def test_the_badges_are_true():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch_needed,) = (need for need in project["dependencies"] if need.startswith("torch>"))
    wanted = {
        "python": project["requires-python"].removeprefix(">="),
        "torch": torch_needed.removeprefix("torch>="),
        "license": project["license"].replace("-", "--"),
    }
    own = (ROOT / "README.md").read_text().partition("<!-- imported -->")[0].replace(") ![", ")\n![")
    badges = re.findall(r"img\.shields\.io/badge/(\w+)-(?:%E2%89%A5_)?(.+)-\w+\)", own)
    assert dict(badges) == wanted


def test_the_figures_of_the_readme_are_those_of_the_pages():
    text = (ROOT / "README.md").read_text()
    summary, readme = re.search(r"\* \*\*Fast\.\*\*.*?\n\*", text, re.DOTALL)[0], text.split("## Why not")[1].split("## ")[0]
    performance = (ROOT / "docs" / "performance.md").read_text().split("<!-- bench:flagship -->")[1].split("<!-- /bench")[0]
    forward, backward, _ = performance.split("Forward + backward to")[0], *performance.split("Forward + backward to")[1:]

    def median(table, subject):
        return float(re.search(rf"^\| \**{re.escape(subject)}\** \|[^|]*\| ([\d.]+) ", table, flags=re.MULTILINE)[1])

    for table, subject, digits in (
        *((forward, "pellucid", 1), (forward, "pellucid, uint8 in", 1), (forward, "torchvision v2", 1), (forward, "kornia", 0)),
        *((forward, "albumentations", 0), (backward, "pellucid", 1), (backward, "kornia", 0)),
    ):
        assert f"{median(table, subject):.{digits}f}" in readme, (subject, median(table, subject))
        assert "uint8" in subject or f"{median(table, subject):.{digits}f}" in summary, subject

    def memory(subject):
        return float(re.search(rf"^\| \**{subject}\** \|.* ([\d.]+) x \|$", backward, flags=re.MULTILINE)[1])

    assert f"{memory('kornia'):.0f} times the batch's memory there and {memory('pellucid'):.1f} times here" in readme


def test_architecture_names_existing_tests():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for path in re.findall(r"`(tests/[\w/]+\.py)", text):
        assert (ROOT / path).exists(), path
    everything = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"::(test_\w+)", text):
        assert f"def {name}(" in everything, name


def installed_by_dev() -> set[str]:
    """Names to import of what ``pip install pellucid[dev]`` brings: what an example may count on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    left, found = ["pellucid[dev]"], set()
    while left:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", left.pop()).groups()
        found.add(name.lower().replace("-", "_"))
        left += [need for extra in (extras or "").split(",") if extra for need in project["optional-dependencies"][extra]]
    found |= {re.match(r"[\w-]+", need)[0].lower().replace("-", "_") for need in project["dependencies"]}
    return found | {IMPORTED_AS[name] for name in found & IMPORTED_AS.keys()}


IMPORTED_AS = {"opencv_python_headless": "cv2", "scikit_image": "skimage", "scikit_learn": "sklearn", "pillow": "PIL"}
"""Packages that are imported under another name than they are installed under."""


class Examples(doctest.DocTestRunner):
    """Runs a docstring's lines, and ends at an import of a package that is not there and need not be."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if of_another_package(exc_info[1]):
            raise exc_info[1]
        super().report_unexpected_exception(out, test, example, exc_info)


def of_another_package(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "pellucid").split(".")[0] not in installed_by_dev()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    torch.set_printoptions(profile="default")
    runner = Examples(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    absent = None
    try:
        for test in doctest.DocTestFinder().find(importlib.import_module(name), name):
            try:
                runner.run(test)
            except ModuleNotFoundError as error:
                absent = error
    except ModuleNotFoundError as error:
        if not of_another_package(error):
            raise
        absent = error
    assert runner.summarize(verbose=False).failed == 0
    if absent is not None:
        pytest.skip(f"an example needs {absent.name}, which is not installed and which Pellucid does not require")


def test_only_packages_that_nobody_requires_excuse_an_example():
    assert of_another_package(ModuleNotFoundError(name="albumentations.core"))
    assert not any(of_another_package(ModuleNotFoundError(name=name)) for name in ("cv2", "PIL.Image", "torch", "pellucid.absent"))
    assert not of_another_package(AssertionError())
