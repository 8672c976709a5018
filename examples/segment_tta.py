"""Segmentation with predictions over views: noisy digits, where ink is; the gain in IoU.

    python examples/segment_tta.py --steps 100

Measured: MEASURED_TTA
"""

import argparse

import torch
import torch.nn.functional as F
from tasks import dense_encoder, pictures

import pellucid
from pellucid.views import TTA

VIEWS = pellucid.Pipeline([pellucid.RandomAffine(8, scale=(0.95, 1.05), translate=(0.05, 0.05), padding_mode="border")], seed=0)


def iou(logits: torch.Tensor, mask: torch.Tensor) -> float:
    """Of the ink."""
    said = logits[:, 1] > logits[:, 0]
    return ((said & mask).sum() / (said | mask).sum()).item()


def main(steps: int = 100, seed: int = 0) -> dict[str, float]:
    """Train a small network on noisy pictures; return its IoU on test pictures, alone and over eight views."""
    torch.manual_seed(seed)
    x, _, x_test, _ = pictures(600, seed)
    noisy = pellucid.Pipeline([pellucid.RandomGaussianNoise(sigma=0.4)], seed=seed)
    model = torch.nn.Sequential(dense_encoder(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 1), torch.nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,))]
        loss = F.cross_entropy(model(noisy(batch)), (batch[:, 0] > 0.5).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mask, seen = x_test[:, 0] > 0.5, noisy(x_test, key=pellucid.Key(7))
    with torch.no_grad():
        views = [pellucid.Pipeline([]), *[VIEWS] * 7]
        return {"alone": iou(model(seen), mask), "views": iou(TTA(views, model)(seen), mask)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
