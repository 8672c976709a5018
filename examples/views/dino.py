"""DINO with many crops: a teacher that sees two large views, a student that sees these and four small ones.

    python examples/views/dino.py --steps 40

Caron et al., "Emerging properties in self-supervised vision transformers", ICCV 2021.
Measured: seed 0, 40 steps: the nearest neighbour is right for 96.0 % with random weights, 95.9 % after (see simclr.py).
"""

import argparse
import copy

import torch
import torch.nn.functional as F
from tasks import nearest_accuracy, pictures, small_encoder

import pellucid

LARGE = [pellucid.RandomResizedCrop(16, scale=(0.5, 1.0)), pellucid.ColorJitter(0.4, 0.4)]
SMALL = [pellucid.RandomResizedCrop(10, scale=(0.2, 0.5)), pellucid.ColorJitter(0.4, 0.4)]


def main(steps: int = 40, seed: int = 0) -> dict[str, float]:
    """Train without labels; return the accuracy of the teacher's nearest neighbour, before and after."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = pictures(1000, seed)
    student = torch.nn.Sequential(small_encoder(64), torch.nn.Linear(64, 128))
    teacher = copy.deepcopy(student).requires_grad_(False)
    large, small = pellucid.Pipeline(LARGE, seed=seed), pellucid.Pipeline(SMALL, seed=seed + 1)
    before = nearest_accuracy(teacher[0], x, y, x_test, y_test)
    centre = torch.zeros(128)
    optimizer = torch.optim.Adam(student.parameters(), 1e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,))]
        globals_ = [view.result for view in large.views(batch, 2)]
        everything = [*globals_, *(view.result for view in small.views(batch, 4))]
        with torch.no_grad():
            taught = [teacher(view) for view in globals_]
            targets = [((out - centre) / 0.05).softmax(1) for out in taught]
            centre = 0.9 * centre + 0.1 * torch.cat(taught).mean(0)
        told = [F.log_softmax(student(view) / 0.1, 1) for view in everything]
        pairs = [-(t * s).sum(1).mean() for i, t in enumerate(targets) for j, s in enumerate(told) if i != j]
        loss = torch.stack(pairs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
                ours.lerp_(theirs, 0.02)
    return {"before": before, "after": nearest_accuracy(teacher[0], x, y, x_test, y_test), "loss": loss.item()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
