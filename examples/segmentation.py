"""Segment discs and bars in noise: images and masks through one draw, pixels that a warp left empty ignored by the loss.

    python examples/segmentation.py

Data: made here, 48 x 48. Result: mean IoU 0.861 on 64 new scenes after 100 steps, half a minute on two cores.
"""

import argparse
import itertools

import torch
from torch import Tensor, nn

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomGaussianNoise, RandomHorizontalFlip, RandomRotation90

SIZE, EMPTY = 48, 255


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (N, 3, H, W) in [0, 1] and classes (N, H, W): 0 ground, 1 disc, 2 bar."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    place = 10 + 28 * torch.rand((count, 4, 1, 1), generator=generator)
    disc = (x - place[:, 0]) ** 2 + (y - place[:, 1]) ** 2 < 64
    bar = ((x - place[:, 2]).abs() < 3) & ((y - place[:, 3]).abs() < 11)
    mask = torch.where(bar, 2, torch.where(disc, 1, 0))
    colours = torch.tensor([0.45, 0.75, 0.2])[:, None] + 0.2 * (torch.rand((count, 3, 3), generator=generator) - 0.5)
    images = torch.stack([colours[i].T[:, mask[i]] for i in range(count)])
    return (images + 0.15 * torch.randn(images.shape, generator=generator)).clamp(0, 1), mask


def main(steps: int) -> float:
    """Train; return the mean intersection over union on scenes not trained on."""
    torch.manual_seed(0)
    augment = Pipeline(
        [
            RandomRotation90(),
            RandomHorizontalFlip(),
            RandomAffine(20, (0.1, 0.1), scale=(0.8, 1.2)),
            ColorJitter(0.3, 0.3, saturation=0.3),
            RandomGaussianNoise(sigma=(0.0, 0.1)),
        ],
        seed=0,
        mask_fill=EMPTY,
    )
    channels, layers = (3, 24, 24, 24), []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 5, padding=2), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(24, 3, 1))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    images, masks = scenes(128, seed=0)
    for step in range(steps):
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))[:16]
        out = augment({"image": images[chosen], "mask": masks[chosen]})
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(out["image"]), out["mask"], ignore_index=EMPTY).backward()
        optimizer.step()
    model.eval()
    images, masks = scenes(64, seed=1)
    with torch.no_grad():
        found = model(images).argmax(1)
    overlaps = [((found == c) & (masks == c)).sum() / ((found == c) | (masks == c)).sum() for c in range(3)]
    return float(torch.stack(overlaps).mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    print(f"mean IoU {main(**vars(parser.parse_args())):.3f}")
