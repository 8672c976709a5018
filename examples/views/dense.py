"""Dense correspondence: cells of two views that show the same thing find each other.

    python examples/views/dense.py --steps 60

Wang et al., "Dense contrastive learning for self-supervised visual pre-training", CVPR 2021, with known places.
Measured: seed 0, 60 steps: 62.3 % of the cells find their own with random weights, 80.9 % after.
"""

import argparse

import torch
import torch.nn.functional as F
from tasks import dense_encoder, pictures

import pellucid
from pellucid.losses import dense_correspondence

AUGMENT = [
    pellucid.RandomAffine(20, scale=(0.8, 1.2)),
    pellucid.RandomResizedCrop(16, scale=(0.5, 1.0)),
    pellucid.ColorJitter(0.4, 0.4),
]


@torch.no_grad()
def matched(encoder: torch.nn.Module, views: tuple) -> float:
    """How many cells of the first view find a cell within one of theirs in the second."""
    (one, a), (two, b) = views
    to = a.at(16, out=8).map_to(b.at(16, out=8))  # the cells of stride 2
    u, v = (F.normalize(encoder(view), dim=1).flatten(2) for view in (one, two))
    best = (u.mT @ v).argmax(-1)
    found = torch.stack((best % 8, best // 8), -1).unflatten(1, (8, 8))
    near = (found - to.grid()).abs().amax(-1) <= 1
    return near[to.valid()].float().mean().item()


def main(steps: int = 60, seed: int = 0) -> dict[str, float]:
    """Train; return the share of cells that find their own, on test pictures, before and after."""
    torch.manual_seed(seed)
    x, _, x_test, _ = pictures(1000, seed)
    encoder, augment = dense_encoder(32), pellucid.Pipeline(AUGMENT, seed=seed)
    test = augment.views(x_test[:100], key=pellucid.Key(99))
    before = matched(encoder, test)
    optimizer = torch.optim.Adam(encoder.parameters(), 2e-3)
    for _ in range(steps):
        (one, a), (two, b) = augment.views(x[torch.randint(len(x), (32,))])
        to = a.at(16, out=8).map_to(b.at(16, out=8))
        loss = dense_correspondence(encoder(one), encoder(two), to.grid().float(), valid=to.valid(), temperature=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"before": before, "after": matched(encoder, test), "loss": loss.item()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
