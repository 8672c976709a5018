"""What detaching patch statistics does to the gradient at a keypoint: variance, bias and direction, on real photographs.

Owns: the experiment behind docs/normalization.md: its table and docs/img/detach_variance.png.
Must not: train anything; the descriptor is fixed, so every difference is the normalisation's.
Read next: ``src/pellucid/nn/patchnorm.py``.

Run: python benchmarks/detach_variance.py --plot docs/img/detach_variance.png
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter
from skimage import color, data, feature, transform, util
from torch import nn

from pellucid.nn import PatchNorm

PHOTOGRAPHS = ("astronaut", "coffee", "chelsea", "camera", "rocket", "coins")
SIDE, FOOTPRINT = 32, 48  # pixels of a patch, and of the image it covers
KEYPOINTS, DRAWS, MISPLACED = 40, 24, 2.0  # per photograph; per keypoint; standard deviation of the displacement in pixels
# Name: (noise of the picture, prefilter before sampling, points at corners).
CONDITIONS = {
    "corners": (0.02, True, True),
    "corners, noise x 5": (0.10, True, True),
    "corners, aliased": (0.02, False, True),
    "random points": (0.02, True, False),
}
NORMALISATIONS = {
    "none": nn.Identity(),
    "detached": PatchNorm(statistics="detached"),
    "full": PatchNorm(statistics="full"),
}


def photograph(name):
    image = util.img_as_float(getattr(data, name)())
    image = color.rgb2gray(image) if image.ndim == 3 else image
    scale = 400 / max(image.shape)
    return transform.resize(image, [round(s * scale) for s in image.shape], anti_aliasing=True)


def corners(image):
    margin = FOOTPRINT
    peaks = feature.corner_peaks(
        feature.corner_shi_tomasi(image, sigma=2), min_distance=8, exclude_border=margin, num_peaks=KEYPOINTS
    )
    return torch.tensor(peaks[:, ::-1].copy(), dtype=torch.float64)  # x before y


def anywhere(image, generator):
    room = torch.tensor([image.shape[1], image.shape[0]], dtype=torch.float64) - 2 * FOOTPRINT
    return FOOTPRINT + room * torch.rand(KEYPOINTS, 2, generator=generator, dtype=torch.float64)


def views(image, generator, noise_level=0.02, prefilter=True):
    """DRAWS pictures of the scene, each with its own gain, offset and noise, filtered as sampling at this scale asks for."""
    gain = 0.6 + 0.6 * torch.rand(DRAWS, generator=generator, dtype=torch.float64)
    offset = 0.1 * torch.randn(DRAWS, generator=generator, dtype=torch.float64)
    noise = noise_level * torch.randn(DRAWS, *image.shape, generator=generator, dtype=torch.float64)
    pictures = gain[:, None, None] * torch.from_numpy(image) + offset[:, None, None] + noise
    if not prefilter:
        return pictures
    sigma = 0.8 * math.sqrt((FOOTPRINT / SIDE) ** 2 - 0.25)
    return torch.from_numpy(np.stack([gaussian_filter(p, sigma) for p in pictures.numpy()]))


def extract(pictures, points):
    """Patches around points (draws, keypoints, 2): grid_sample, with pixel centres at integers."""
    steps = (torch.arange(SIDE, dtype=torch.float64) + 0.5) * (FOOTPRINT / SIDE) - FOOTPRINT / 2
    offsets = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)  # h w 2
    height, width = pictures.shape[1:]
    pixels = points[:, :, None, None] + offsets
    grid = (2 * pixels + 1) / torch.tensor([width, height], dtype=torch.float64) - 1
    patches = F.grid_sample(pictures[:, None], grid.flatten(1, 2), align_corners=False)  # draws 1 keypoints*h w
    return patches.reshape(-1, 1, SIDE, SIDE)


def network(seed):
    torch.manual_seed(seed)
    convolutions = [(1, 16), (16, 32), (32, 64)]
    layers = [m for i, o in convolutions for m in (nn.Conv2d(i, o, 3, stride=2, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.Conv2d(64, 64, 4), nn.Flatten()).double().requires_grad_(requires_grad=False)


def loss(patches, others, normalise, descriptor):
    a, b = (F.normalize(descriptor(normalise(p)), dim=1) for p in (patches, others))
    return (a - b).square().sum()


def measure(name, descriptor, seed, noise_level, prefilter, at_corners):
    generator = torch.Generator().manual_seed(seed)
    image = photograph(name)
    truth = corners(image) if at_corners else anywhere(image, generator)
    displacement = MISPLACED * torch.randn(len(truth), 2, generator=generator, dtype=torch.float64)
    left, right = (views(image, generator, noise_level, prefilter) for _ in range(2))
    everywhere = truth.expand(DRAWS, -1, -1)
    others = extract(right, everywhere)
    contrast = extract(torch.from_numpy(gaussian_filter(image, 1.0))[None], truth[None]).flatten(1).std(1)
    rows = {}
    for policy, normalise in NORMALISATIONS.items():
        points = (everywhere + displacement).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(extract(left, points), others, normalise, descriptor), points)  # draws k 2
        mean = gradient.mean(0)
        variance = gradient.var(0).sum(-1)
        # |mean|^2 estimated from few draws is too large by variance / draws.
        signal = mean.square().sum(-1) - variance / DRAWS
        rows[policy] = {
            "variance": variance,
            "snr": signal / variance,
            "mean": mean,
            "cosine": F.cosine_similarity(-gradient, -displacement.expand_as(gradient), dim=-1).mean(0),
        }
    exact = rows["full"]["mean"]
    for row in rows.values():
        row["bias"] = (row.pop("mean") - exact).norm(dim=-1) / exact.norm(dim=-1)
        row["contrast"] = contrast
    return rows


def spurious(descriptor):
    """Share of the gradient to a patch's pixels that only asks for another brightness or contrast."""
    image = photograph("astronaut")
    patches = extract(views(image, torch.Generator().manual_seed(5)), corners(image).expand(DRAWS, -1, -1))
    shares = {}
    for policy, normalise in NORMALISATIONS.items():
        leaf = patches[: 2 * KEYPOINTS].clone().requires_grad_()
        (g,) = torch.autograd.grad(loss(leaf, patches[-2 * KEYPOINTS :], normalise, descriptor), leaf)
        g, x = g.flatten(1), leaf.detach().flatten(1)
        centred = F.normalize(x - x.mean(1, keepdim=True), dim=1)
        parts = g.sum(1).abs() / x.shape[1] ** 0.5, (g * centred).sum(1).abs()
        shares[policy] = [(p / g.norm(dim=1)).median().item() for p in parts]
    return shares


def table(results):
    lines = [
        "| where | descriptor | normalisation | variance | signal / noise | cosine to the truth | bias | variance against full |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (condition, descriptor), rows in results.items():
        for policy in NORMALISATIONS:
            v = {key: torch.cat([r[policy][key] for r in rows]).median().item() for key in ("variance", "snr", "cosine", "bias")}
            cells = [condition, descriptor, policy, f"{v['variance']:.2e}", f"{v['snr']:.2f}", f"{v['cosine']:.3f}"]
            if policy == "none":  # another function: its gradient has another scale, and nothing to be biased against
                cells += ["-", "-"]
            else:
                ratios = torch.cat([r[policy]["variance"] / r["full"]["variance"] for r in rows])
                low, middle, high = ratios.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)).tolist()
                cells += [f"{100 * v['bias']:.1f} %", f"{middle:.2f} ({low:.2f} .. {high:.2f})"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(results, path):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    colours = {"none": "#7f7f7f", "full": "#0072b2", "detached": "#d55e00"}
    # Two of the three all but coincide: the one above is a ring, or a dashed line, that lets the one below be seen.
    rings = {"none": {}, "full": {}, "detached": {"facecolors": "none", "linewidths": 0.9}}
    strokes = {"none": "-", "full": "-", "detached": (0, (3, 3))}
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), constrained_layout=True)
    rows = results["corners", "network"]
    gathered = {p: {k: torch.cat([r[p][k] for r in rows]) for k in ("variance", "snr", "contrast")} for p in NORMALISATIONS}
    for policy, colour in colours.items():
        g = gathered[policy]
        settings = {"s": 26, "edgecolors": colour, **rings[policy]} if rings[policy] else {"s": 9, "color": colour, "alpha": 0.6}
        axes[0].scatter(g["contrast"], g["variance"], label=policy, **settings)
        ordered = g["snr"].sort().values
        axes[1].plot(
            ordered, torch.linspace(0, 1, len(ordered)), color=colour, linestyle=strokes[policy], linewidth=2, label=policy
        )
    ratio = (gathered["detached"]["variance"] / gathered["full"]["variance"]).log2()
    axes[2].hist(ratio.numpy(), bins=30, color=colours["detached"], alpha=0.8)
    axes[2].axvline(0, color="black", linewidth=1)
    axes[2].axvline(ratio.median().item(), color=colours["full"], linewidth=2, label=f"median: x {2 ** ratio.median().item():.2f}")
    axes[0].set(xscale="log", yscale="log", xlabel="patch contrast (standard deviation)", ylabel="gradient variance (1 / px$^2$)")
    axes[0].set_title("Gradient variance at the keypoint, by patch contrast")
    axes[1].set(
        xlabel="|mean|$^2$ / variance", ylabel="share of keypoints below", xlim=(-0.5, float(gathered["full"]["snr"].quantile(0.9)))
    )
    axes[1].set_title("Signal-to-noise ratio of the gradient")
    axes[2].set(xlabel="log$_2$ (variance detached / variance full)", ylabel="keypoints")
    axes[2].set_title("The same keypoint, detached against full")
    for axis in axes:
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{len(ratio)} keypoints on {len(PHOTOGRAPHS)} photographs, {DRAWS} draws of gain, offset and noise each")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", help="write the figure here (PNG)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    descriptors = {"network": network(arguments.seed), "pixels": nn.Flatten()}
    cases = [(c, "network") for c in CONDITIONS] + [("corners", "pixels")]
    results = {
        (c, d): [measure(name, descriptors[d], arguments.seed + i, *CONDITIONS[c]) for i, name in enumerate(PHOTOGRAPHS)]
        for c, d in cases
    }
    print(table(results))
    print("\nShare of the pixel gradient (network, astronaut) that only asks for another brightness, contrast:")
    for policy, parts in spurious(descriptors["network"]).items():
        print(f"  {policy}: {parts[0]:.1e}, {parts[1]:.1e}")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
