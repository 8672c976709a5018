"""The libraries we are measured against: imported once, here, and skipped with a reason where they are absent.

Owns: how each peer is imported and called on our layouts.
Must not: assert anything.
Read next: ``oracle/test_opencv.py``.
"""

import os
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

__all__ = ["BORDERS", "albumentations", "cv_image", "cv_remap", "cv_warp", "ndimage", "opencv", "torchvision_functional"]

BORDERS = {"constant": 0, "replicate": 1, "reflect": 2, "wrap": 3, "reflect_101": 4}


def albumentations() -> ModuleType:
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network on import
    return pytest.importorskip("albumentations", reason="albumentations is not installed: its differential tests need it")


def opencv() -> ModuleType:
    return pytest.importorskip("cv2", reason="OpenCV is not installed: the convention oracles need opencv-python-headless")


def ndimage() -> ModuleType:
    return pytest.importorskip("scipy.ndimage", reason="SciPy is not installed: the precision oracles need it")


def torchvision_functional() -> ModuleType:
    """torchvision.transforms.v2.functional, also beside a torch its compiled operators were not built for.

    Its import registers fake kernels for those operators and fails where they are missing; none of the functions used here needs
    them, so those registrations are skipped during the import.
    """
    register = torch.library.register_fake

    def tolerant(name: Any, *args: Any, **options: Any) -> Any:
        if isinstance(name, str) and name.startswith("torchvision::"):
            return lambda function: function
        return register(name, *args, **options)

    torch.library.register_fake = tolerant
    try:
        import torchvision.transforms.v2.functional as functional
    except ImportError as error:
        pytest.skip(f"torchvision is not importable ({error}): its oracles are skipped")
    finally:
        torch.library.register_fake = register
    return functional


def cv_image(image: torch.Tensor) -> np.ndarray:
    """One (C, H, W) tensor as OpenCV holds it."""
    return np.ascontiguousarray(image.detach().permute(1, 2, 0).numpy())


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array if array.ndim == 3 else array[..., None]).permute(2, 0, 1)


def cv_warp(
    kind: str, image: torch.Tensor, matrix: np.ndarray, dsize: tuple[int, int], flags: int, border: str, value: Any
) -> torch.Tensor:
    """``cv2.warpAffine`` or ``cv2.warpPerspective`` of a (C, H, W) tensor."""
    warp = getattr(opencv(), kind)
    return _tensor(warp(cv_image(image), matrix, dsize, flags=flags, borderMode=BORDERS[border], borderValue=value))


def cv_remap(image: torch.Tensor, x: np.ndarray, y: np.ndarray, flags: int, border: str, value: Any) -> torch.Tensor:
    """``cv2.remap`` of a (C, H, W) tensor."""
    maps = x.astype(np.float32), y.astype(np.float32)
    return _tensor(opencv().remap(cv_image(image), *maps, flags, borderMode=BORDERS[border], borderValue=value))
