"""Commands that want a package that only an extra installs say so before they work, in one sentence that names the extra."""

import sys

import pytest
from typer.testing import CliRunner

from pellucid.cli import app

NEEDS = [
    ("skimage", "demo --small"),
    ("skimage", "gallery"),
    ("skimage", "study detach"),
    ("skimage", "train-descriptor run"),
    ("skimage", "eval-descriptor --photographs chelsea --weights run"),
    ("skimage", "bench loader"),
    ("skimage", "bench antialias"),
    ("skimage", "bench reach"),
    ("skimage", "bench register"),
    ("sklearn", "learn demo"),
    ("sklearn", "learn rotation"),
    ("matplotlib", "learn demo"),
    ("matplotlib", "study learned"),
    ("matplotlib", "bench docs"),
    ("matplotlib", "bench scaling -o out"),
    ("safetensors", "learn demo"),
    ("safetensors", "train-joint run"),
    ("safetensors", "export-descriptor run net.pt2"),
    ("cv2", "eval-descriptor --photographs chelsea --weights run"),
    ("onnx", "export-descriptor run net.onnx"),
]


@pytest.mark.parametrize(("package", "command"), NEEDS)
def test_the_package_is_asked_for_before_anything_else(package, command, tmp_path, monkeypatch):
    if command.split()[0] in ("bench", "study"):
        pytest.importorskip("pellucid_bench")
    monkeypatch.chdir(tmp_path)
    # A part that another test has imported would still be found.
    for module in {package, *(name for name in sys.modules if name.startswith(f"{package}."))}:
        monkeypatch.setitem(sys.modules, module, None)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2, result.output
    wanted = "pip install scikit-learn" if package == "sklearn" else "pip install 'pellucid["  # which no extra holds
    assert wanted in " ".join(result.output.split())
    assert not any(tmp_path.iterdir())
