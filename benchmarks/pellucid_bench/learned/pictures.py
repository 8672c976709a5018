"""The data of the study: Fashion-MNIST, digits, and patches of photographs that other packages bring.

Owns: which photograph a patch is of, and that no pixel of a test patch was trained on.
Must not: download.
Read next: ``arms.py``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.learn.data import Pictures, find_data, load_pictures

__all__ = ["DATA", "data_named"]

DATA = {"fashion_mnist": (500, 2000, 10_000), "digits": (500,), "patches": (500, 2000)}
"""By name: the sizes of the training sets."""

_PHOTOGRAPHS = ("astronaut", "cat", "coffee", "hubble_deep_field", "immunohistochemistry", "rocket")
_SIDE, _TRAINED, _TESTED = 24, 1000, 300


@cache
def data_named(name: str) -> Pictures:
    """One of the data sets."""
    if name == "digits":
        return load_pictures()
    if name == "patches":
        return _patches()
    folder = find_data(name)
    if folder is None:
        raise invalid("--data", expected=f"a folder {name!r} under PELLUCID_DATA or shared/data", got="none")
    return load_pictures(folder)


def _patches() -> Pictures:
    """24 x 24 patches in colour of six photographs, at half their size; which one is the class. Tests are from the right third."""
    from skimage import data
    from sklearn.datasets import load_sample_images

    photographs = [getattr(data, name)() for name in _PHOTOGRAPHS] + list(load_sample_images().images)
    draw = torch.Generator().manual_seed(0)
    trained, tested = [], []
    for photograph in photographs:
        half = _halved(photograph)
        cut = 2 * half.shape[2] // 3
        trained.append(_cut(half[:, :, :cut], _TRAINED, draw))
        tested.append(_cut(half[:, :, cut:], _TESTED, draw))
    y_train, y_test = (torch.arange(len(photographs)).repeat_interleave(count) for count in (_TRAINED, _TESTED))
    return Pictures("patches", torch.cat(trained), y_train, torch.cat(tested), y_test)


def _halved(photograph: Any) -> Tensor:
    whole = torch.tensor(photograph).permute(2, 0, 1)[None].float()
    return torch.nn.functional.avg_pool2d(whole, 2)[0].round().to(torch.uint8)


def _cut(photograph: Tensor, count: int, draw: torch.Generator) -> Tensor:
    windows = photograph.unfold(1, _SIDE, 1).unfold(2, _SIDE, 1)  # (3, rows, columns, side, side)
    rows, columns = (torch.randint(n, (count,), generator=draw) for n in windows.shape[1:3])
    return windows[:, rows, columns].transpose(0, 1).contiguous()
