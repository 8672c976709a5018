"""``python -m pellucid_bench.site.reader``: follow the documentation from an empty folder, literally.

Owns: running the blocks of pages as a reader would, in fresh processes, and holding what they print to what the pages say.
Must not: import what the pages import.
Read next: ``pages.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pellucid_bench.site.pages import ROOT

__all__ = ["come_from_albumentations", "follow"]

PAGES = ("start.md", "targets.md", "seeds.md", "records.md")
PROJECT = {
    "settings.py": "image_size = 224\n",
    "train.py": """import albumentations as A
import numpy as np

from settings import image_size

transform = A.Compose(
    [A.Resize(image_size, image_size), A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=0.2)],
    bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"]),
)
out = transform(image=np.zeros((300, 400, 3), np.uint8), bboxes=[[10, 20, 200, 220]], labels=["cat"])
print(out["image"].shape, len(out["bboxes"]), out["labels"])
""",
    "augment.json": '{"__version__": "2.0.8", "transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": '
    '[{"__class_fullname__": "HorizontalFlip", "p": 0.5}]}}\n',
}
"""A project that uses albumentations, as somebody has it who comes from there."""
_FENCE = re.compile(r"^```(?P<kind>python|text|sh)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


def follow(page: Path, folder: Path) -> str:
    """Run a page's Python as one file and its commands as they stand, in the folder; returns what is wrong, or nothing.

    Installation is left out: what is installed is what is tested.
    """
    blocks = [(match["kind"], match["body"]) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]
    program = "".join(body for kind, body in blocks if kind == "python")
    expected = "".join(body for kind, body in blocks if kind == "text")
    script = folder / page.with_suffix(".py").name
    script.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    if done.stdout != expected:
        return f"printed\n{done.stdout}instead of\n{expected}"
    commands = [line for kind, body in blocks if kind == "sh" for line in body.splitlines() if line.startswith("pellucid ")]
    for command in commands:
        words = [sys.executable, "-m", "pellucid.cli", *command.split("#")[0].split()[1:]]
        told = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if told.returncode:
            return f"{command}\n{told.stdout}{told.stderr}"
    return ""


def come_from_albumentations(folder: Path) -> str:
    """Begin in a project, follow *Coming from*, and run the script with the import that the page names; as ``follow``."""
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")
    fault = follow(ROOT / "docs" / "coming-from.md", folder)
    script = folder / "train.py"
    script.write_text(PROJECT["train.py"].replace("albumentations", "pellucid.interop.like_albumentations", 1), encoding="utf-8")
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, check=False)
    return fault or done.stderr * bool(done.returncode) or (done.stdout != "(224, 224, 3) 1 ['cat']\n") * f"printed {done.stdout}"


def main() -> None:
    """Follow the pages in one folder that begins empty, then *Coming from* in a project; exit with 1 where one is wrong."""
    faults = {}
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as project:
        for name in PAGES:
            faults[name] = follow(ROOT / "docs" / name, Path(empty))
        faults["coming-from.md"] = come_from_albumentations(Path(project))
    for name, fault in faults.items():
        print(f"{name}: {fault or 'as printed'}")
    raise SystemExit(any(faults.values()))


if __name__ == "__main__":
    main()
