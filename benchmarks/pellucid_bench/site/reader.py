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

__all__ = ["follow"]

PAGES = ("start.md", "targets.md", "seeds.md", "records.md")
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


def main() -> None:
    """Follow the pages, one after the other, in one folder that begins empty; exit with 1 where one is wrong."""
    with tempfile.TemporaryDirectory() as place:
        wrong = 0
        for name in PAGES:
            fault = follow(ROOT / "docs" / name, Path(place))
            wrong += bool(fault)
            print(f"{name}: {fault or 'as printed'}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
