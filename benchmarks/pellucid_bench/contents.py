"""``python -m pellucid_bench.contents DIR``: what stands in the sdist and the wheel of a release.

Owns: which files must be in them, and which must not.
Must not: build anything.
Read next: ``environment.py``.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from pellucid import __version__

__all__ = ["faults_of"]

_WHEEL = ("pellucid/__init__.py", "pellucid/py.typed", "pellucid/cli/report.css", "pellucid/cli/gallery.html")
_SDIST = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
    "pyproject.toml",
    "tests/cases.py",
    "docs/index.md",
)
_NEVER = re.compile(r"(^|/)(__pycache__|\.venv|\.git|runs)(/|$)|^site/|\.(pyc|nbi|nbc|so|pt)$")


def faults_of(path: Path) -> list[str]:
    """What is missing from a built file, and what should not be in it."""
    wanted: tuple[str, ...]
    roots: set[str] | None
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
        wanted, roots = (
            (*_WHEEL, f"pellucid-{__version__}.dist-info/licenses/LICENSE"),
            {"pellucid", f"pellucid-{__version__}.dist-info"},
        )
    else:
        with tarfile.open(path) as archive:
            names = [PurePosixPath(name).relative_to(f"pellucid-{__version__}").as_posix() for name in archive.getnames()]
        wanted, roots = _SDIST, None
    faults = [f"{path.name} lacks {name}" for name in wanted if name not in names]
    faults += [f"{path.name} holds {name}" for name in names if _NEVER.search(name)]
    return faults + [f"{path.name} holds {name}" for name in names if roots is not None and name.split("/")[0] not in roots]


def main() -> None:
    """Check every file of a folder; print what is there, and the faults."""
    files = sorted(Path(sys.argv[1]).iterdir())
    faults = [fault for path in files for fault in faults_of(path)]
    if [path.suffix for path in files] != [".whl", ".gz"]:
        faults.append(f"expected a wheel and an sdist, got {[path.name for path in files]}")
    for path in files:
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    print(*faults, f"{len(faults)} faults", sep="\n")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
