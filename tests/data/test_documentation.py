"""The loading guide runs, block by block, in a folder of pictures."""

import re
import sys
import types
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "loading.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


def test_the_guide_runs(folder, tmp_path, monkeypatch):
    (tmp_path / "pictures").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    if not image_folder():
        monkeypatch.setitem(sys.modules, "torchvision.datasets", types.SimpleNamespace(ImageFolder=Folder))
    scope: dict = {}
    for number, block in enumerate(BLOCKS):
        if "from datasets" not in block:
            exec(compile(block, f"loading.md, block {number}", "exec"), scope)
    assert scope["state"] == {"epoch": 0, "done": 8}


def test_the_block_on_hugging_face_runs(folder, tmp_path, monkeypatch):
    pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    (tmp_path / "pictures").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    if not image_folder():
        monkeypatch.setitem(sys.modules, "torchvision.datasets", types.SimpleNamespace(ImageFolder=Folder))
    scope: dict = {}
    for block in (BLOCKS[0], next(block for block in BLOCKS if "from datasets" in block)):
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
