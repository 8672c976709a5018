"""Train by a file: the augmentation, its seed and the optimizer's settings stand in one TOML file.

    python examples/from_toml.py             # writes train.toml where there is none, and trains by it
    python examples/from_toml.py mine.toml

Data: scikit-learn's 1,797 digits, 8 x 8. Result: accuracy 0.947 on the last quarter after 30 epochs, ten seconds on two cores.
"""

import argparse
import tomllib
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from pellucid import Pipeline

DEFAULT = """\
[train]
epochs = 30
batch = 64
rate = 3e-3

[augment]
pellucid = 1
seed = 0

[[augment.transforms]]
name = "RandomAffine"
degrees = 10
translate = [0.08, 0.08]

[[augment.transforms]]
name = "RandomBrightness"
brightness = 0.2
"""


def main(file: Path, epochs: int | None) -> float:
    """Train by a file; return the accuracy on the last quarter of the digits."""
    if not file.exists():
        file.write_text(DEFAULT)
    settings = tomllib.loads(file.read_text())
    train, augment = settings["train"], Pipeline.from_dict(settings["augment"])
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    cut = 3 * len(images) // 4
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), train["rate"])
    for _ in range(train["epochs"] if epochs is None else epochs):
        for chosen in torch.randperm(cut).split(train["batch"]):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(augment(images[chosen])), labels[chosen]).backward()
            optimizer.step()
    with torch.no_grad():
        return float((model(images[cut:]).argmax(1) == labels[cut:]).float().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=Path("train.toml"))
    parser.add_argument("--epochs", type=int)
    print(f"accuracy {main(**vars(parser.parse_args())):.3f}")
