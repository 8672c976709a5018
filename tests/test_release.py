"""What a release says of itself is the same everywhere, and its files hold what they should."""

import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from pellucid import __version__

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
