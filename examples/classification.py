"""Classify pictures of different sizes: a folder of classes, one ragged pass per batch, any number of workers and ranks.

    python examples/classification.py
    torchrun --nproc_per_node=2 examples/classification.py

Data: scikit-learn's 1,797 digits, written as pictures of 24 to 48 pixels.
Result: accuracy 0.929 after 5 epochs, half a minute on two cores.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomResizedCrop, Resize
from pellucid.data import Indexed, Order, collate
from pellucid.training import average_gradients, join_world
from pellucid.training.distributed import leave_world


class Folder:
    """(path, class) of the pictures of a folder of classes; decoding is left to the collate function."""

    def __init__(self, root: Path) -> None:
        self.samples = [(path, int(path.parent.name)) for path in sorted(root.rglob("*.png"))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> tuple[Path, int]:
        return self.samples[i]


def write_digits(root: Path, count: int) -> None:
    """Pictures of different sizes, the last quarter for the test."""
    digits, sizes = load_digits(), np.random.default_rng(0).integers(24, 49, (count, 2))
    for i in range(count):
        folder = root / ("test" if i >= 3 * count // 4 else "train") / str(digits.target[i])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[i] * 15.9).astype(np.uint8)).resize(sizes[i]).convert("RGB").save(folder / f"{i}.png")


def main(epochs: int, count: int, workers: int) -> float:
    """Train; return the accuracy on the test pictures."""
    world = join_world()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        write_digits(Path(place), count)
        train, test = Folder(Path(place) / "train"), Folder(Path(place) / "test")
        steps = [RandomResizedCrop(32, scale=(0.7, 1.0)), RandomAffine(degrees=10, translate=(0.05, 0.05)), ColorJitter(0.3, 0.3)]
        augment, prepare = Pipeline(steps, seed=0, dtype=torch.float32), Pipeline([Resize((32, 32))], seed=0, dtype=torch.float32)
        order = Order(train, seed=0, rank=world.rank, ranks=world.size)
        batches = DataLoader(Indexed(train), 32, sampler=order, collate_fn=collate(augment), num_workers=workers)
        model = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * 64, 10)),
        )
        optimizer = torch.optim.Adam(model.parameters(), 2e-3)
        for _ in range(epochs):
            for images, labels in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                average_gradients(model.parameters(), world)
                optimizer.step()
        model.eval()
        with torch.no_grad():
            seen = DataLoader(Indexed(test), 64, sampler=Order(test), collate_fn=collate(prepare))
            right = torch.cat([model(images).argmax(1) == labels for images, labels in seen])
    leave_world()
    return float(right.float().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--count", type=int, default=1797)
    parser.add_argument("--workers", type=int, default=0)
    print(f"accuracy {main(**vars(parser.parse_args())):.3f}")
