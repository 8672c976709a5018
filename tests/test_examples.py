"""The examples run in small settings, and learn something."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
# File -> arguments, and what it must reach: far above chance, far below what the header says.
SMALL = {
    "classification.py": (["--epochs", "2", "--count", "400"], 0.3),  # chance: 0.1
    "segmentation.py": (["--steps", "30"], 0.4),  # ground alone: 0.32
    "detection.py": (["--steps", "60"], 0.25),  # a box in the middle: 0.15
    "distill.py": (["--images", "1", "--steps", "20"], 0.4),  # chance: 0.1
    "from_toml.py": (["--epochs", "2"], 0.6),  # chance: 0.1
    "watermark.py": (["--steps", "150", "--count", "4"], 0.57),  # chance: 0.5
    "with_lightning.py": (["--epochs", "2"], 0.5),  # chance: 0.1
    "with_transformers.py": (["--epochs", "5"], 0.3),  # chance: 0.1
}
NEEDED = ("sklearn", "skimage", "lightning", "transformers", "datasets")


# Frameworks import torchvision; a wheel for CUDA needs help beside a torch for the CPU.
HELPED = """
import runpy, sys
from importlib.util import find_spec
if find_spec("torchvision"):
    from pellucid_bench.peers.torchvision_import import torchvision_v2
    torchvision_v2()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(arguments, folder):
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return float(re.search(r"([\d.]+)$", done.stdout.strip())[1])


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_it_learns(name, tmp_path):
    text = (FOLDER / name).read_text()
    for library in NEEDED:
        if re.search(rf"^(import|from) {library}\b", text, flags=re.MULTILINE) and find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    arguments, least = SMALL[name]
    assert run(["-c", HELPED, FOLDER / name, *arguments], tmp_path) > least


@pytest.mark.long
def test_two_ranks_train_together(tmp_path):
    pytest.importorskip("sklearn")
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29571", FOLDER / "classification.py"]
    assert run([*torchrun, "--epochs", "2", "--count", "400"], tmp_path) > 0.3


def test_every_example_is_tested_and_says_what_it_reached():
    names = {path.name for path in FOLDER.glob("*.py")}
    assert names == set(SMALL)
    for name in names:
        assert re.search(r"Result: .*0\.\d+", (FOLDER / name).read_text()), name
