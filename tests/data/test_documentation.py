"""The loading guide runs, block by block, in a folder of pictures."""

import contextlib
import re
import sys
import types
from pathlib import Path

import pytest

from pellucid_bench.peers.torchvision_import import torchvision_v2

GUIDE = Path(__file__).parents[2] / "docs" / "loading.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
NEEDED = ("datasets", "lightning", "transformers")
"""Libraries that only some blocks are about."""


def needed(block):
    return [name for name in NEEDED if f"from {name} " in block or f"import {name}\n" in block]


@pytest.fixture
def place(folder, tmp_path, monkeypatch):
    (tmp_path / "pictures").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    if not image_folder():
        monkeypatch.setitem(sys.modules, "torchvision.datasets", types.SimpleNamespace(ImageFolder=Folder))


@pytest.mark.usefixtures("place")
def test_the_guide_runs():
    scope: dict = {}
    for number, block in enumerate(BLOCKS):
        if not needed(block):
            exec(compile(block, f"loading.md, block {number}", "exec"), scope)
    assert scope["state"] == {"epoch": 0, "done": 8}


@pytest.mark.usefixtures("place")
@pytest.mark.filterwarnings("ignore:::lightning", "ignore:::transformers", "ignore:::accelerate")
@pytest.mark.parametrize("library", NEEDED)
def test_the_blocks_on_other_libraries_run(library):
    with contextlib.suppress(ImportError):
        torchvision_v2()  # which they import, and which may be built for another torch
    pytest.importorskip(library, reason=f"{library} is not installed")
    about = [block for block in BLOCKS if library in needed(block)]
    assert about
    scope: dict = {}
    for block in (BLOCKS[0], next(block for block in BLOCKS if "from torch import nn" in block), *about):
        exec(block, scope)


def image_folder():
    try:
        import torchvision.datasets  # noqa: F401
    except (ImportError, RuntimeError):  # absent, or built for another torch
        return False
    return True


class Folder:
    """What `ImageFolder` does, where torchvision cannot be imported: classes are folders, samples (loader(path), class)."""

    def __init__(self, root, loader):
        classes = sorted(path for path in Path(root).iterdir() if path.is_dir())
        self.samples = [(str(path), n) for n, folder in enumerate(classes) for path in sorted(folder.iterdir())]
        self.loader = loader

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        return self.loader(path), label
