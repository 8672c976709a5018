"""A folder of pictures, one folder for each class, of several sizes and formats."""

import numpy as np
import pytest
from PIL import Image

SIZES = ((60, 80), (97, 51), (64, 64), (41, 120), (80, 60), (33, 35), (60, 80), (70, 90))


def picture(height, width, number):
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin((number + 1 + c) * rows / 17) * np.cos(columns / (9 + number)) for c in range(3)]
    return Image.fromarray(np.stack(waves, -1).astype(np.uint8))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    for number, (height, width) in enumerate(SIZES):
        path = root / ("cat", "dog")[number % 2] / f"{number:02d}.{('jpg', 'png')[number == 3]}"
        path.parent.mkdir(exist_ok=True)
        picture(height, width, number).save(path)
    return root
