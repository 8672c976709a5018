"""Every block of docs/frameworks.md, run inside of the framework that it is about, where that is installed."""

import contextlib
import io
import os
import re
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

from tests.guide.pages import DOCS, FENCE
from tests.peers import torchvision_functional

PAGE = (DOCS / "frameworks.md").read_text()
HEAD, *SECTIONS = PAGE.split("\n## ")
PACKAGES = {
    "Ultralytics": "ultralytics",
    "timm": "timm",
    "transformers": "transformers",
    "torchgeo": "torchgeo",
    "segmentation_models_pytorch": "segmentation_models_pytorch",
    "torchmetrics": "torchmetrics",
    "lightly": "lightly",
    "batchgeneratorsv2 and nnU-Net": "batchgeneratorsv2",
    "anomalib": "anomalib",
}
"""By the heading of each section that is run, what has to be installed."""


def parts(text):
    return [(found["kind"], found["body"]) for found in FENCE.finditer(text)]


def test_each_section_is_run_or_says_that_it_was_not():
    headings = [section.partition("\n")[0] for section in SECTIONS]
    assert headings == [*PACKAGES, "Detectron2 and MMDetection"]
    for section in SECTIONS[:-1]:
        assert re.search(r"^Version \d", section, flags=re.MULTILINE)
        assert next(kind for kind, _ in parts(section)) == "python"
    assert "have not run inside of these frameworks" in SECTIONS[-1]


@pytest.fixture
def _as_users_run():
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(True, warn_only=True)


@pytest.mark.long
@pytest.mark.usefixtures("_as_users_run")
@pytest.mark.parametrize("section", SECTIONS[:-1], ids=list(PACKAGES.values()))
def test_it_runs(section, tmp_path, monkeypatch):
    package = PACKAGES[section.partition("\n")[0]]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: its section of docs/frameworks.md was not run")
    monkeypatch.chdir(tmp_path)
    for name, value in {"HF_HUB_OFFLINE": "1", "NO_ALBUMENTATIONS_UPDATE": "1", "YOLO_CONFIG_DIR": str(tmp_path)}.items():
        monkeypatch.setitem(os.environ, name, value)
    scope = {"__name__": "guide"}
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # a framework's own
        torchvision_functional()
        import_module(package)
        if package == "ultralytics" and not hasattr(torch.ops.torchvision, "nms"):
            # Wheels of torchvision for CUDA have no compiled operators beside a torch for the CPU; its validation has one, too.
            monkeypatch.setattr("torchvision.ops.nms", import_module("ultralytics.utils.nms").TorchNMS.nms)
        for kind, body in [*parts(HEAD), *parts(section)]:
            if kind == "python":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(body, "docs/frameworks.md", "exec"), scope)
            else:
                assert printed.getvalue() == body
