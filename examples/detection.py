"""Find one square in clutter: boxes through crops and turns, those that left the picture taken out by their flags.

    python examples/detection.py

Data: made here, 64 x 64. Result: mean IoU 0.729 on 128 new scenes after 300 steps, half a minute on two cores.
"""

import argparse
import itertools

import torch
from torch import Tensor, nn

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomHorizontalFlip, RandomResizedCrop
from pellucid.detection import box_iou, generalized_box_iou

SIZE = 64


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (N, 3, H, W) in [0, 1] with a bright square each, and its box (N, 1, 4)."""
    generator = torch.Generator().manual_seed(seed)
    side = 14 + 14 * torch.rand((count, 1), generator=generator)
    corner = torch.rand((count, 2), generator=generator) * (SIZE - side)
    boxes = torch.cat((corner, corner + side), 1).round()
    centre = torch.arange(SIZE) + 0.5
    inside = [(centre > boxes[:, i, None]) & (centre < boxes[:, i + 2, None]) for i in (0, 1)]
    square = (inside[1][:, :, None] & inside[0][:, None, :])[:, None]
    ground = nn.functional.interpolate(torch.rand((count, 3, 8, 8), generator=generator) * 0.5, (SIZE, SIZE))
    return torch.where(square, 0.6 + 0.4 * torch.rand((count, 3, 1, 1), generator=generator), ground), boxes[:, None]


def main(steps: int) -> float:
    """Train; return the mean IoU of predicted and true boxes on scenes not trained on."""
    torch.manual_seed(0)
    augment = Pipeline(
        [
            RandomHorizontalFlip(),
            RandomResizedCrop(SIZE, scale=(0.5, 1.0)),
            RandomAffine(translate=(0.1, 0.1), degrees=0),
            ColorJitter(0.2, 0.2, saturation=0.2),
        ],
        seed=0,
        min_visibility=0.4,
    )
    layers, widths = [], (3, 16, 32, 64)
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)

    def predict(images: Tensor) -> Tensor:
        centre, size = (model(images) * 0.5 + 0.5).mul(SIZE).split(2, 1)
        return torch.cat((centre - size / 2, centre + size / 2), 1)

    images, boxes = scenes(512, seed=0)
    for step in range(steps):
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))[:32]
        out = augment({"image": images[chosen], "boxes": boxes[chosen]})
        found, true, seen = predict(out["image"]), out["boxes"][:, 0], out["boxes_valid"][:, 0]
        near = (found - true).abs().mean(1) / SIZE
        overlap = 1 - torch.stack([generalized_box_iou(a[None], b[None])[0, 0] for a, b in zip(found, true, strict=True)])
        optimizer.zero_grad()
        ((4 * near + overlap) * seen).sum().div(seen.sum()).backward()
        optimizer.step()
    model.eval()
    images, boxes = scenes(128, seed=1)
    with torch.no_grad():
        return float(box_iou(predict(images), boxes[:, 0]).diagonal().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    print(f"mean IoU {main(**vars(parser.parse_args())):.3f}")
