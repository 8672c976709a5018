"""``python -m pellucid_bench.sbom DIR``: what a release is made of, and the hashes of all of it.

Owns: a bill of materials (CycloneDX 1.6, JSON) beside each wheel, and SHA256SUMS of the files and of the object code in wheels.
Must not: build or sign anything; equal files give equal bytes.
Read next: ``contents.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

__all__ = ["bill_of", "sums_of"]

_NAME = re.compile(r"[\w.-]+")


def bill_of(wheel: Path) -> dict[str, Any]:
    """The bill of materials of a wheel: itself, what it needs (with extras as optional), and the object code inside."""
    with zipfile.ZipFile(wheel) as file:
        metadata = next(name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        about = message_from_string(file.read(metadata).decode())
        code = {name: hashlib.sha256(file.read(name)).hexdigest() for name in sorted(file.namelist()) if name.endswith(".nbc")}
    own = f"pkg:pypi/{about['Name']}@{about['Version']}"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    needed = [_needed(line) for line in about.get_all("Requires-Dist", [])]
    inside = [
        {"type": "file", "name": name, "bom-ref": name, "hashes": [{"alg": "SHA-256", "content": one}]}
        for name, one in code.items()
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": about["Name"],
                "version": about["Version"],
                "bom-ref": own,
                "purl": own,
                "licenses": [{"license": {"id": about["License-Expression"]}}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": [*needed, *inside],
        "dependencies": [{"ref": own, "dependsOn": [one["bom-ref"] for one in needed]}],
    }


def _needed(line: str) -> dict[str, Any]:
    """A requirement such as ``onnx>=1.16; extra == 'onnx'``: a range, which CycloneDX has as properties."""
    requirement, _, marker = (part.strip() for part in line.partition(";"))
    found = _NAME.match(requirement)
    assert found is not None, line
    properties = {"requirement": requirement, **({"marker": marker} if marker else {})}
    return {
        "type": "library",
        "name": found[0],
        "bom-ref": line,
        "purl": f"pkg:pypi/{found[0].lower()}",
        "scope": "optional" if "extra" in marker else "required",
        "properties": [{"name": f"python:{key}", "value": value} for key, value in properties.items()],
    }


def sums_of(folder: Path) -> str:
    """SHA256SUMS: of each file, and of each piece of object code in a wheel, which ``pellucid doctor --hashes`` compares."""
    lines = []
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("SHA256SUMS"):
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as file:
                code = [name for name in sorted(file.namelist()) if name.endswith(".nbc")]
                lines += [f"{hashlib.sha256(file.read(name)).hexdigest()}  {name}" for name in code]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write both into the folder."""
    folder = Path(*sys.argv[1:2])
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise SystemExit(f"expected a folder with a wheel, got {folder}: python -m pellucid_bench.sbom dist")
    for wheel in wheels:
        wheel.with_suffix(".cdx.json").write_text(json.dumps(bill_of(wheel), indent=1) + "\n")
    (folder / "SHA256SUMS").write_text(sums_of(folder))
    print(*(path.name for path in sorted(folder.iterdir())), sep="\n")


if __name__ == "__main__":
    main()
