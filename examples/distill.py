"""Distil Fashion-MNIST into 1 or 10 pictures per class: match the mean features of real and learned pictures under siamese draws.

    python examples/distill.py --images 10

Zhao and Bilen, "Dataset condensation with distribution matching", WACV 2023, with the augmentation of their "Dataset
condensation with differentiable siamese augmentation", ICML 2021: in each step, real and learned pictures of a class are
augmented alike. The class is the sample's index in the key, and a draw depends on nothing else.
Data: Fashion-MNIST under PELLUCID_DATA (MIT licence), or scikit-learn's digits.
Result: 1 picture per class, seed 0: 0.696 of the test set by networks that learn with draws, 0.692 without; 28 s of one core.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid as pl
from pellucid.learn.data import Pictures, find_data, load_pictures
from pellucid.policy import DiffAugment

Both = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""From real pictures, learned pictures and the step to both, augmented."""

# One of the six for each draw, as strong as the paper has them; what comes in from outside is the mean of the data, 0.5.
AUGMENT = pl.OneOf(
    [
        DiffAugment(["color"]),
        DiffAugment(["translation"]),
        DiffAugment(["cutout"]),
        pl.RandomHorizontalFlip(p=0.5),
        pl.RandomAffine(0, scale=(1 / 1.2, 1.2), fill=0.5),
        pl.RandomRotation(15, fill=0.5),
    ]
)
ARMS = ("nothing", "independent", "siamese")
"""What both go through: nothing, a draw for each picture, or a draw for each class."""
STEPS = {1: 200, 10: 100}


def read() -> Pictures:
    """The data, as floats: the mean of all pixels lies at 0.5, and so large is their deviation."""
    data = load_pictures(find_data("fashion_mnist"))
    deviation, mean = torch.std_mean(data.x_train.float())
    x_train, x_test = ((x.float() - mean) / deviation / 2 + 0.5 for x in (data.x_train, data.x_test))
    return replace(data, x_train=x_train, x_test=x_test)


def make_network(data: Pictures, width: int = 32) -> nn.Sequential:
    """Three convolutions with instance norm, and a linear layer: features are all but the last."""
    channels, height, wide = data.x_train.shape[1:]
    layers: list[nn.Module] = []
    for n in (channels, width, width):
        layers += [nn.Conv2d(n, width, 3, padding=1), nn.GroupNorm(width, width), nn.ReLU(), nn.AvgPool2d(2)]
    return nn.Sequential(nn.Sequential(*layers, nn.Flatten()), nn.Linear(width * (height // 8) * (wide // 8), data.classes))


def means(network: nn.Sequential, x: Tensor, classes: int) -> Tensor:
    """The mean feature of each class, where every class has equally many rows, one after another."""
    features = torch.cat([network[0](2 * part - 1) for part in x.split(80)])  # small parts stay in the processor's cache
    return features.unflatten(0, (classes, -1)).mean(1)


def draws(arm: str, classes: int, seed: int) -> Both:
    """What real and learned pictures go through, where each class has equally many rows, one after another."""
    augment = pl.Pipeline([AUGMENT] if arm != "nothing" else [])

    def drawn(x: Tensor, step: int, first: int) -> Tensor:
        index = torch.arange(classes).repeat_interleave(len(x) // classes) if arm == "siamese" else first + torch.arange(len(x))
        seen: Tensor = augment(x, key=pl.Key(seed, step, index))
        return seen

    return lambda real, learned, step: (drawn(real, step, 0), drawn(learned, step, len(real)))


def distil(data: Pictures, images: int, steps: int, seed: int, both: Both, real: int = 32, rate: float = 2.0) -> Tensor:
    """Learn pictures, `images` of class 0, then of class 1 and so on; a step looks at `real` real ones of each."""
    torch.manual_seed(seed)
    rows = [(data.y_train == one).nonzero()[:, 0] for one in range(data.classes)]
    made = torch.cat([data.x_train[own[torch.randperm(len(own))[:images]]] for own in rows]).requires_grad_()
    optimizer = torch.optim.SGD([made], rate * images, momentum=0.5)
    for step in range(steps):
        network = make_network(data)
        shown = torch.cat([data.x_train[own[torch.randint(len(own), (real,))]] for own in rows])
        shown, learned = both(shown, made, step)
        with torch.no_grad():
            aim = means(network, shown, data.classes)
        loss = (means(network, learned, data.classes) - aim).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return made.detach()


def accuracy(made: Tensor, data: Pictures, steps: int, seed: int, *, drawn: bool) -> float:
    """Of a network that was trained on the made pictures alone, plainly or with a draw for each picture."""
    torch.manual_seed(1000 + seed)
    augment = pl.Pipeline([AUGMENT] if drawn else [])
    labels = torch.arange(data.classes).repeat_interleave(len(made) // data.classes)
    network = make_network(data)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    rates = torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps // 2])
    for step in range(steps):
        loss = F.cross_entropy(network(2 * augment(made, key=pl.Key(seed, step)) - 1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
    with torch.no_grad():
        found = torch.cat([network(2 * part - 1).argmax(1) for part in data.x_test.split(80)])
    return float((found == data.y_test).float().mean())


def measure(data: Pictures, both: Both, images: int, steps: int, seed: int, learning: int = 200) -> dict[str, float]:
    """Distil; then the accuracy of networks that learn from what was made: the mean of two with draws, and one without."""
    made = distil(data, images, steps, seed, both)
    drawn = [accuracy(made, data, learning, 10 * seed + one, drawn=True) for one in range(2)]
    return {"without draws": accuracy(made, data, learning, 10 * seed, drawn=False), "with draws": sum(drawn) / 2}


def main(images: int = 10, arm: str = "siamese", steps: int | None = None, seed: int = 0) -> dict[str, float]:
    """One run on the data that is found; `steps` is 200 for 1 picture per class and 100 for 10."""
    data = read()
    return measure(data, draws(arm, data.classes, seed), images, STEPS.get(images, 100) if steps is None else steps, seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--arm", choices=ARMS, default="siamese")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    for name, value in main(**vars(parser.parse_args())).items():
        print(f"{name}: {value:.3f}")
