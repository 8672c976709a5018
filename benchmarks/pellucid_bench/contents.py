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
from collections import Counter
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


def names_of(path: Path) -> list[str]:
    """The files of a wheel or an sdist, from its root."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as archive:
        return [PurePosixPath(one.name).relative_to(f"pellucid-{__version__}").as_posix() for one in archive if one.isfile()]


def faults_of(path: Path) -> list[str]:
    """What is missing from a built file, and what should not be in it."""
    wanted: tuple[str, ...] = _SDIST
    roots: set[str] | None = None
    names = names_of(path)
    if path.suffix == ".whl":
        about = f"pellucid-{__version__}.dist-info"
        wanted, roots = (*_WHEEL, f"{about}/licenses/LICENSE"), {"pellucid", about}
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
        parts = Counter(name.split("/")[0] for name in names_of(path))
        print(
            f"{path.name}: {path.stat().st_size / 1e6:.2f} MB", *(f"  {part}: {n}" for part, n in sorted(parts.items())), sep="\n"
        )
    print(*faults, f"{len(faults)} faults", sep="\n")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
