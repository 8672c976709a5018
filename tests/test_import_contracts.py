"""The import contracts refuse what they are there to refuse: every rule is broken once, in a copy."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLANTED = {
    "Layers: imports point downwards only": ("functional/sizes.py", "import pellucid.pipeline"),
    "Inside a pipeline: imports point downwards only": ("pipeline/notebook.py", "import pellucid.pipeline.module"),
    "Inside targets: imports point downwards only": ("targets/torchvision.py", "import pellucid.targets.kinds"),
    "Inside the engine: imports point downwards only": ("engine/plan/make.py", "import pellucid.engine.lowering"),
    "Kernels know no transforms, and of segments only their values": ("kernels/warp/packing.py", "import pellucid.transforms"),
    "Implementations: the references import neither cpu nor triton": (
        "kernels/warp/reference.py",
        "import pellucid.kernels.warp.cpu",
    ),
    "Implementations: cpu imports neither a reference nor triton": (
        "kernels/resize/cpu/op.py",
        "import pellucid.kernels.resize.reference",
    ),
    "Implementations: triton imports neither a reference nor cpu": (
        "kernels/warp/triton/op.py",
        "import pellucid.kernels.warp.cpu",
    ),
    "Stages import no implementation": ("kernels/stages/colour.py", "import pellucid.kernels.warp.cpu"),
    "Applications stand on the public interface": ("features/detect.py", "import pellucid.random.philox"),
}


def run(folder: Path) -> dict[str, str]:
    """The verdict on each contract."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache"]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": "src", "PATH": ""}, capture_output=True, text=True, check=False)
    verdicts = dict(re.findall(r"^(.+?) (KEPT|BROKEN)$", done.stdout, re.MULTILINE))
    assert verdicts, done.stdout + done.stderr
    return verdicts


def test_every_contract_refuses_its_planted_import(tmp_path):
    pytest.importorskip("importlinter")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert run(tmp_path) == dict.fromkeys(PLANTED, "KEPT")
    for file, line in PLANTED.values():
        path = tmp_path / "src" / "pellucid" / file
        path.write_text(path.read_text() + f"\n{line}\n")
    assert run(tmp_path) == dict.fromkeys(PLANTED, "BROKEN")
