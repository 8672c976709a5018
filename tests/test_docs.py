"""What the documentation shows runs: README blocks, and every docstring example."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import torch

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


def test_readme_example_runs(capsys):
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
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
            assert (ROOT / link).exists(), f"{name}: {link}"


def test_architecture_names_existing_tests():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for path in re.findall(r"`(tests/[\w/]+\.py)", text):
        assert (ROOT / path).exists(), path
    everything = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"::(test_\w+)", text):
        assert f"def {name}(" in everything, name


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    torch.set_printoptions(profile="default")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0
