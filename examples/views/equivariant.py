"""Equivariance: a segmentation of noisy digits that turns with its picture, by augmentation or by a loss.

    python examples/views/equivariant.py --steps 150

Three networks see the same pictures: the plain one; one whose pictures and masks are turned; one whose answers to turned pictures
are pulled to its turned answers, without masks for these. ``pellucid.equivariance`` measures each.
Measured: seeds 0 to 2, 150 steps: error under turns by 45 degrees 1.03, 1.14, .83 plain, .82, .48, .91 augmented, .13, .12, .12
with the loss; resampling alone costs .11. On upright pictures IoU falls from .772 to .743 with either.
"""

import argparse

import torch
import torch.nn.functional as F
from tasks import dense_encoder, pictures

import pellucid
from pellucid.equivariance import measure_equivariance
from pellucid.losses import equivariance

TURN = pellucid.RandomRotation(45)
WAYS = ("plain", "augmented", "loss")


def iou(logits: torch.Tensor, mask: torch.Tensor) -> float:
    """Of the ink."""
    said = logits[:, 1] > logits[:, 0]
    return ((said & mask).sum() / (said | mask).sum()).item()


def train(way: str, x: torch.Tensor, steps: int, seed: int) -> torch.nn.Module:
    """One of the three networks."""
    torch.manual_seed(seed)
    noisy = pellucid.Pipeline([pellucid.RandomGaussianNoise(sigma=0.4)], seed=seed)
    turn = pellucid.Pipeline([TURN], seed=seed)
    model = torch.nn.Sequential(dense_encoder(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 1), torch.nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,))]
        if way == "augmented":
            batch = turn(batch)
        seen = noisy(batch)
        said = model(seen)
        loss = F.cross_entropy(said, (batch[:, 0] > 0.5).long())
        if way == "loss":
            turned, record = turn(seen, return_record=True)
            wanted = turn.apply({"heatmap": said}, record)["heatmap"]
            loss = loss + equivariance(model(turned), wanted, valid=turn.valid_mask(record)[:, 0] > 0.999)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def main(steps: int = 150, seed: int = 0) -> dict[str, float]:
    """Train the three; return the IoU of each on upright test pictures, and its error under turns by 22.5 and by 45 degrees."""
    x, _, x_test, _ = pictures(600, seed)
    noisy = pellucid.Pipeline([pellucid.RandomGaussianNoise(sigma=0.4)], seed=seed)
    seen, result = noisy(x_test[:200], key=pellucid.Key(7)), {}
    for way in WAYS:
        model = train(way, x, steps, seed)
        with torch.no_grad():
            result[f"{way} iou"] = iou(model(seen), x_test[:200, 0] > 0.5)
        for row in measure_equivariance(model, pellucid.Pipeline([TURN]), seen, strengths=[0.5, 1.0], draws=2).rows:
            result[f"{way} error {45 * row.strength:g}"] = row.error
            result[f"resampling {45 * row.strength:g}"] = row.resampling
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
