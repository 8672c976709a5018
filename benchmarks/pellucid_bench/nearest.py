"""How far what is only near is from the original: what both change in a picture, over many draws; ``main`` writes the table.

Owns: the measure, and its table in docs/coming-from.md.
Must not: choose options; both have the original's defaults.
Read next: ``configurations.py``.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import torch

from pellucid.interop import read_albumentations
from pellucid_bench.configurations import TARGET

__all__ = ["changes", "main", "rows", "table"]

START, END = "<!-- nearest -->", "<!-- /nearest -->"
DRAWS = 100

_PLAIN = (
    *(
        "AdvancedBlur",
        "CLAHE",
        "Defocus",
        "Equalize",
        "FancyPCA",
        "GaussNoise",
        "GlassBlur",
        "GridDistortion",
        "ISONoise",
        "MotionBlur",
    ),
    *(
        "MultiplicativeNoise",
        "OpticalDistortion",
        "Perspective",
        "PiecewiseAffine",
        "PixelDropout",
        "RandomCropFromBorders",
        "RandomFog",
    ),
    *("RandomRain", "RandomShadow", "RandomSnow", "RandomSunFlare", "RandomToneCurve", "SafeRotate", "SaltAndPepper", "Sharpen"),
    *("ThinPlateSpline", "UnsharpMask", "ZoomBlur"),
)
NAMES: dict[str, dict[str, Any]] = {
    **{name: {} for name in _PLAIN},
    "Downscale": {"scale_range": (0.25, 0.5)},
    "ElasticTransform": {"alpha": 60.0, "sigma": 6.0},
    "GaussianBlur": {"blur_limit": (3, 7)},
    "ImageCompression": {"quality_range": (30, 80)},
}


def _picture() -> np.ndarray:
    from skimage.data import astronaut

    return np.ascontiguousarray(astronaut()[30:286, 110:366][::2, ::2])


def changes(name: str, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute change of the picture in levels of 255, of each draw: theirs, ours."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    import albumentations as A
    import cv2

    picture = _picture()
    height, width = picture.shape[:2]

    def change(result: np.ndarray) -> float:
        same = result if result.shape == picture.shape else cv2.resize(result, (width, height))
        return float(np.abs(same.astype(int) - picture).mean())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = getattr(A, name)(**options, p=1.0)
        theirs = A.Compose([one], seed=0)
        read = read_albumentations(A.to_dict(one), size=(height, width))
    if read.missing:
        return np.zeros(0), np.zeros(0)
    batch = torch.from_numpy(picture).movedim(-1, 0).expand(DRAWS, -1, -1, -1).contiguous()
    ours = read.pipeline(batch).movedim(1, -1).numpy()
    return np.array([change(theirs(image=picture)["image"]) for _ in range(DRAWS)]), np.array([change(image) for image in ours])


def rows() -> list[tuple[str, float, float, float]]:
    """(name, their mean change, ours, Kolmogorov and Smirnov's distance) of what is here."""
    from scipy.stats import ks_2samp

    found = []
    for name, options in sorted(NAMES.items()):
        theirs, ours = changes(name, options)
        if ours.size:
            found.append((name, float(theirs.mean()), float(ours.mean()), float(ks_2samp(theirs, ours).statistic)))
    return found


def table() -> str:
    """All of them, in Markdown."""
    lines = ["| albumentations' | changes there | here | distance of the distributions |", "|---|---|---|---|"]
    for name, theirs, ours, distance in rows():
        options = ", ".join(f"{key}={value}" for key, value in NAMES[name].items())
        lines.append(f"| `{name}({options})` | {theirs:.1f} | {ours:.1f} | {distance:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table into the page."""
    page = TARGET.read_text(encoding="utf-8")
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    TARGET.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
