"""What a release says of itself is the same everywhere, and its files hold what they should."""

import hashlib
import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pellucid import __version__
from pellucid.cli import app
from pellucid.core.compilers import kept

ROOT = Path(__file__).parent.parent


def test_the_version_is_one():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    first, second = re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)[:2]
    assert first == "Unreleased"
    version, date = second.split(" - ")
    assert version == __version__
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in citation
    assert f'\ndate-released: "{date}"\n' in citation
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


def test_addresses_are_one():
    address = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    for name in ("mkdocs.yml", "CITATION.cff"):
        assert address in (ROOT / name).read_text(), name


def test_the_contents_of_a_wheel_and_an_sdist_are_looked_at(tmp_path):
    contents = pytest.importorskip("pellucid_bench.contents")
    wheel = tmp_path / f"pellucid-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name in (*contents._WHEEL, "tests/cases.py", "pellucid/__pycache__/x.pyc"):
            file.writestr(name, "")
    faults = "\n".join(contents.faults_of(wheel))
    for wanted in ("dist-info/licenses/LICENSE", "holds tests/cases.py", "x.pyc"):
        assert wanted in faults, faults
    sdist = tmp_path / f"pellucid-{__version__}.tar.gz"
    with tarfile.open(sdist, "w:gz") as file:
        for name in contents._SDIST[1:]:
            file.addfile(tarfile.TarInfo(f"pellucid-{__version__}/{name}"), io.BytesIO())
    assert contents.faults_of(sdist) == [f"{sdist.name} lacks LICENSE"]


def test_a_bill_of_materials_names_what_a_wheel_needs_and_holds(tmp_path):
    sbom = pytest.importorskip("pellucid_bench.sbom")
    wheel = tmp_path / "pellucid-0.0-py3-none-any.whl"
    needs = "".join(f"Requires-Dist: {line}\n" for line in ("torch>=2.9", "onnx>=1.16; extra == 'onnx'"))
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("pellucid/compiled/a.nbc", b"code")
        file.writestr("pellucid-0.0.dist-info/METADATA", f"Name: pellucid\nVersion: 0.0\nLicense-Expression: Apache-2.0\n{needs}\n")
    bill = sbom.bill_of(wheel)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/pellucid@0.0"
    assert [(one["name"], one.get("scope")) for one in bill["components"]] == [
        ("torch", "required"),
        ("onnx", "optional"),
        ("pellucid/compiled/a.nbc", None),
    ]
    references = {one["bom-ref"] for one in bill["components"]}
    assert len(references) == 3
    assert set(bill["dependencies"][0]["dependsOn"]) <= references
    assert bill == sbom.bill_of(wheel)
    assert f"{hashlib.sha256(b'code').hexdigest()}  pellucid/compiled/a.nbc" in sbom.sums_of(tmp_path).splitlines()


def test_doctor_holds_object_code_against_the_list_of_a_release(tmp_path, monkeypatch):
    import pellucid

    assert Path(pellucid.__file__).with_name("compiled") == kept.COMPILED  # where wheels have it: hatch_build.py
    monkeypatch.setattr(kept, "COMPILED", tmp_path)
    (tmp_path / "a.nbc").write_bytes(b"code")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'code').hexdigest()}  pellucid/compiled/a.nbc\n")
    call = ["doctor", "--quick", "--hashes", str(tmp_path / "SHA256SUMS")]
    assert CliRunner().invoke(app, call).exit_code == 0
    (tmp_path / "a.nbc").write_bytes(b"other code")
    (tmp_path / "b.nbc").write_bytes(b"code")
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 1
    assert "compiled/a.nbc: not as in" in result.output
    assert "compiled/b.nbc: not as in" in result.output
