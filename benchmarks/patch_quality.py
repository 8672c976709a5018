"""How good the patches' antialiasing is: its width, its distance from a true Gaussian, and what it does to a keypoint's gradient.

Owns: the experiments behind docs/patches.md: its tables and docs/img/patches.png.
Must not: time anything (``pellucid bench patches`` does).
Read next: ``src/pellucid/functional/patches.py``.

Run: python benchmarks/patch_quality.py --plot docs/img/patches.png
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy import ndimage
from skimage import data
from torch import Tensor

from pellucid.features import extract_patches, frame_corners, frames_from_xy, keypoint_gradient_signal

NAMES = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "hubble_deep_field", "rocket", "text")
DISTANCES = (1.0, 1.5, 2.0, 2.83, 4.0, 5.66, 8.0)
BLURS = (0.5, 0.6, 0.7, 0.8)
SIZE = 32

Extract = Callable[[Tensor, Tensor], Tensor]


def photographs() -> list[Tensor]:
    """Grey pictures in [0, 1], (1, H, W)."""
    pictures = [getattr(data, name)() for name in NAMES]
    grey = [picture @ np.array([0.299, 0.587, 0.114]) if picture.ndim == 3 else picture for picture in pictures]
    return [torch.tensor(picture, dtype=torch.float64)[None] / 255 for picture in grey]


def width(distance: float, blur: float) -> float:
    """Standard deviation of the whole kernel, interpolation included, in distances between samples; mean over positions."""
    image = torch.zeros(1, 1, 257, 257, dtype=torch.float64, requires_grad=True)
    offsets = torch.rand(64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    frames = frames_from_xy(128.0 + 16.0 * (offsets - 0.5), distance / 2)[None]
    variances = []
    for n in range(64):
        (kernel,) = torch.autograd.grad(extract_patches(image, frames[:, n : n + 1], 1, blur=blur).sum(), image)
        along = kernel[0, 0].sum(0)
        at = torch.arange(257, dtype=torch.float64) - frames[0, n, 0, 2]
        variances.append(float((along * at**2).sum() - (along * at).sum() ** 2))
    return math.sqrt(sum(variances) / len(variances)) / distance


def oracle(picture: Tensor, frames: Tensor, sigma: float) -> np.ndarray:
    """Patches of a picture blurred by a true Gaussian, read by a cubic spline: (n, SIZE, SIZE)."""
    blurred = ndimage.gaussian_filter(picture[0].numpy(), sigma, mode="nearest", truncate=6.0) if sigma > 0 else picture[0].numpy()
    cells = (2.0 * np.arange(SIZE) + 1.0) / SIZE - 1.0
    u, v = np.meshgrid(cells, cells)
    spline = ndimage.spline_filter(blurred, order=3, mode="nearest")
    results = []
    for frame in frames[0].numpy():
        x = frame[0, 0] * u + frame[0, 1] * v + frame[0, 2]
        y = frame[1, 0] * u + frame[1, 1] * v + frame[1, 2]
        results.append(ndimage.map_coordinates(spline, (y, x), order=3, mode="nearest", prefilter=False))
    return np.stack(results)


def best_error(extract: Extract, pictures: list[Tensor], distance: float) -> tuple[float, float]:
    """(rms error in percent of the patches' own deviation, the Gaussian's sigma that makes it smallest, in sample distances)."""
    errors = []
    sigmas = np.arange(0.0, 1.21, 0.1)
    for number, picture in enumerate(pictures):
        height, wide = picture.shape[-2:]
        u = torch.rand(16, 3, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        reach = min(SIZE * distance * 0.71, 0.45 * min(height, wide))
        xy = torch.stack((reach + u[:, 0] * (wide - 1 - 2 * reach), reach + u[:, 1] * (height - 1 - 2 * reach)), -1)
        frames = frames_from_xy(xy, SIZE * distance / 2, 360.0 * u[:, 2])[None]
        ours = extract(picture[None], frames)[0, :, 0].numpy()
        truths = [oracle(picture, frames, sigma * distance) for sigma in sigmas]
        errors.append([np.mean((ours - truth) ** 2) / np.mean(truth.var((1, 2))) for truth in truths])
    mean = np.sqrt(np.mean(errors, 0))
    return 100.0 * float(mean.min()), float(sigmas[mean.argmin()])


def subjects() -> dict[str, Extract]:
    """Ours with and without antialiasing, and kornia's pyramid where it is installed."""
    extracts: dict[str, Extract] = {
        "none": lambda image, frames: extract_patches(image, frames, SIZE, antialias=False),
        "ours": lambda image, frames: extract_patches(image, frames, SIZE),
    }
    try:
        from kornia.feature import extract_patches_from_pyramid
    except ImportError:
        return extracts
    extracts["kornia's pyramid"] = lambda image, frames: extract_patches_from_pyramid(image, frames, SIZE)
    return extracts


def draw(path: Path) -> None:
    """Frames on a photograph; their patches without and with antialiasing; patches of a frame that grows."""
    from matplotlib import pyplot as plt

    plt.switch_backend("Agg")
    image = torch.tensor(data.astronaut()).permute(2, 0, 1)[None].float() / 255
    xy = torch.tensor([[220.0, 100.0], [165.0, 345.0], [345.0, 345.0], [405.0, 180.0], [50.0, 60.0], [455.0, 390.0]])
    scale, degrees = torch.tensor([64.0, 40.0, 24.0, 100.0, 80.0, 16.0]), torch.tensor([0.0, 30.0, -20.0, 90.0, 15.0, 200.0])
    frames = frames_from_xy(xy, scale, degrees)[None]
    figure = plt.figure(figsize=(12, 5))
    grid = figure.add_gridspec(3, 9, left=0.01, right=0.99, top=0.93, bottom=0.02, wspace=0.06, hspace=0.22)
    canvas = figure.add_subplot(grid[:, :3])
    canvas.imshow(image[0].permute(1, 2, 0))
    for n, corners in enumerate(frame_corners(frames[0])):
        line = torch.cat((corners, corners[:1]))
        canvas.plot(line[:, 0], line[:, 1], color=f"C{n}")
        arrow = torch.stack((xy[n], frames[0, n] @ torch.tensor([1.0, 0.0, 1.0])))
        canvas.plot(arrow[:, 0], arrow[:, 1], color=f"C{n}")
    canvas.set_xlim(-0.5, 511.5)
    canvas.set_ylim(511.5, -0.5)
    canvas.set_axis_off()
    canvas.set_title("frames; the stroke is the patch's x axis")
    growing = frames_from_xy(torch.tensor([[405.0, 180.0]]).expand(6, 2), 16.0 * 2.0 ** torch.arange(0, 3, 0.5), 10.0)[None]
    rows = (
        ("no antialiasing", extract_patches(image, frames, SIZE, antialias=False)),
        ("antialiased", extract_patches(image, frames, SIZE)),
        ("one frame, growing by 1.41", extract_patches(image, growing, SIZE)),
    )
    for row, (title, patches) in enumerate(rows):
        for n in range(6):
            axis = figure.add_subplot(grid[row, 3 + n])
            axis.imshow(patches[0, n].permute(1, 2, 0))
            axis.set_xticks([])
            axis.set_yticks([])
            for spine in axis.spines.values():
                spine.set_color(f"C{n}" if row < 2 else "black")
                spine.set_linewidth(2)
            if n == 0:
                axis.set_title(title, loc="left", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the tables of docs/patches.md, and draw its picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pictures = photographs()

    print("whole kernel's standard deviation, in distances between samples")
    print("| distance | " + " | ".join(f"blur {blur}" for blur in BLURS) + " |")
    print("|---|" + "---|" * len(BLURS))
    for distance in DISTANCES:
        print(f"| {distance} | " + " | ".join(f"{width(distance, blur):.2f}" for blur in BLURS) + " |")

    print("\nrms error against the best Gaussian, percent of the patches' deviation (its sigma)")
    extracts = subjects()
    print("| distance | " + " | ".join(extracts) + " |")
    print("|---|" + "---|" * len(extracts))
    for distance in DISTANCES:
        errors = [best_error(extract, pictures, distance) for extract in extracts.values()]
        print(f"| {distance} | " + " | ".join(f"{error:.1f} ({sigma:.1f})" for error, sigma in errors) + " |")

    print("\nsignal-to-noise ratio of the keypoint's gradient (share of draws that lead home)")
    print("| footprint | none | " + " | ".join(f"blur {blur}" for blur in BLURS) + " |")
    print("|---|---|" + "---|" * len(BLURS))
    images = [picture.float() for picture in pictures]
    for footprint in (32.0, 64.0, 128.0):
        options = [{"antialias": False}, *({"blur": blur} for blur in BLURS)]
        signals = [keypoint_gradient_signal(images, footprint, draws=128, **option) for option in options]
        print(f"| {footprint:.0f} px | " + " | ".join(f"{f.snr:.2f} ({f.right_way:.0%})" for f in signals) + " |")

    if arguments.plot:
        draw(arguments.plot)


if __name__ == "__main__":
    main()
