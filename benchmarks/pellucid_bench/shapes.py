"""``pellucid study volumes``: a small segmentation of synthetic scans, trained with and without nnU-Net's augmentation.

Owns: the scans, the network, the arms, and the table.
Must not: augment by itself.
Read next: ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid import Pipeline, presets
from pellucid.geometry.space import rotation3
from pellucid_bench.runs import Row, each

__all__ = ["ABOUT", "ARMS", "as_markdown", "run", "scans"]

SIZE, TRAINING, TEST, STEPS, BATCH = 20, 4, 24, 600, 2
ABOUT: Row = {"size": SIZE, "training": TRAINING, "test": TEST, "steps": STEPS, "batch": BATCH, "version": 1}
TARGETS = {"image": "volume"}


def _recipe(**options: Any) -> Callable[[int], Pipeline]:
    return lambda seed: presets.nnunet((SIZE,) * 3, seed=seed, targets=TARGETS, foreground=0.0, **options)


def _first(steps: int) -> Callable[[int], Pipeline]:
    """The recipe's maps without its intensities, or without turns and zooms."""
    whole = _recipe()(0).transforms
    chosen = whole[:6] if steps else whole[6:]
    return lambda seed: Pipeline(list(chosen), seed=seed, targets=TARGETS, canvas="image")


ARMS: dict[str, tuple[str, Callable[[int], Pipeline]]] = {
    "none": ("nothing", lambda seed: Pipeline([], seed=seed, targets=TARGETS)),
    "maps": ("turns, zooms and mirrors of the recipe", _first(1)),
    "values": ("noise, blur, contrast, resolution and gamma of the recipe", _first(0)),
    "recipe": ("nnU-Net's recipe", _recipe()),
}


def scans(count: int, seed: int, *, other: bool = False) -> tuple[Tensor, Tensor]:
    """Standardised scans (n, 1, D, H, W), and labels: 1 in long ellipsoids, 2 in balls of the same brightness, 0 elsewhere, also in
    flat ellipsoids.

    Args:
        other: as another scanner shows them: another contrast, a bias field, more noise, fewer slices.
    """
    generator = torch.Generator().manual_seed(seed)
    at = torch.stack(torch.meshgrid(*[torch.linspace(-1.0, 1.0, SIZE)] * 3, indexing="ij"), -1)
    labels = torch.zeros((count, *(SIZE,) * 3), dtype=torch.int64)
    image = 0.15 * F.interpolate(torch.randn(count, 1, 5, 5, 5, generator=generator), (SIZE,) * 3, mode="trilinear")
    for label, radii in ((0, (0.5, 0.5, 0.15)), (2, (0.3, 0.3, 0.3)), (1, (0.6, 0.2, 0.2))):
        turns = rotation3(360.0 * torch.rand(count, 3, generator=generator))
        middles = 1.1 * torch.rand(count, 3, generator=generator) - 0.55
        zoom = 0.85 + 0.3 * torch.rand(count, 1, 1, 1, generator=generator)
        inside = torch.einsum("bij,bzyxj->bzyxi", turns, at - middles[:, None, None, None])
        inside = (inside / torch.tensor(radii)).norm(dim=-1) < zoom
        labels = torch.where(inside, label, labels)
        light = 0.8 + 0.3 * torch.rand(count, 1, 1, 1, 1, generator=generator)
        image = torch.where(inside[:, None], light + 0.1 * torch.randn(image.shape, generator=generator), image)
    image = image + 0.15 * torch.randn(image.shape, generator=generator)
    if other:
        steps = [
            pellucid.RandomGammaInRange((0.5, 0.6)),
            pellucid.RandomBiasField(0.4, order=2),
            pellucid.RandomLowResolution(0.5, axes="z"),
        ]
        image = Pipeline([*steps, pellucid.RandomGaussianNoise(sigma=0.2, clip="none")], seed=seed, targets=TARGETS)(image)
    flat = image.flatten(2)
    return ((flat - flat.mean(2, keepdim=True)) / flat.std(2, keepdim=True)).view(image.shape), labels


class _Net(nn.Module):
    """Three scales, two convolutions each."""

    def __init__(self) -> None:
        super().__init__()
        widths = (6, 12, 24)
        self.down = nn.ModuleList(_block(a, b) for a, b in zip((1, 6, 12), widths, strict=True))
        self.up = nn.ModuleList([_block(36, 12), _block(18, 6)])
        self.last = nn.Conv3d(6, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for block in self.down:
            x = block(F.max_pool3d(x, 2) if kept else x)
            kept.append(x)
        for block, before in zip(self.up, (kept[1], kept[0]), strict=True):
            x = block(torch.cat((F.interpolate(x, before.shape[2:], mode="trilinear"), before), 1))
        return self.last(x)


def _block(channels: int, width: int) -> nn.Module:
    def layer(a: int) -> list[nn.Module]:
        return [nn.Conv3d(a, width, 3, padding=1), nn.InstanceNorm3d(width, affine=True), nn.LeakyReLU(0.01)]

    return nn.Sequential(*layer(channels), *layer(width))


def run(arm: str, seed: int, *, steps: int = STEPS) -> Row:
    """Train on a few scans; Dice of both labels, in percent, on other scans and on those of another scanner."""
    images, labels = scans(TRAINING, 100 + seed)
    augment = ARMS[arm][1](seed)
    torch.manual_seed(seed)
    net = _Net()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    order = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randint(0, TRAINING, (BATCH,), generator=order)
        batch = augment({"volume": images[chosen], "labelmap": labels[chosen]})
        found = net(batch["volume"])
        loss = F.cross_entropy(found, batch["labelmap"]) + 1.0 - _dice(found.softmax(1), batch["labelmap"]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    net.eval()
    found = {}
    with torch.no_grad():
        for name, other in (("same", False), ("other", True)):
            pictures, truth = scans(TEST, 7, other=other)
            hard = F.one_hot(torch.cat([net(part) for part in pictures.split(8)]).argmax(1), 3).movedim(-1, 1).float()
            found[name] = round(100.0 * float(_dice(hard, truth).mean()), 2)
    return found


def _dice(shares: Tensor, labels: Tensor) -> Tensor:
    """Of each label but 0, over a batch."""
    truth = F.one_hot(labels, 3).movedim(-1, 1).to(shares.dtype)
    both, sizes = ((one[:, 1:]).sum((0, 2, 3, 4)) for one in (shares * truth, shares + truth))
    return (2.0 * both + 1.0) / (sizes + 1.0)


def as_markdown(rows: Sequence[Row]) -> str:
    """Dice by arm, what each gains over nothing seed by seed, and what a run costs."""
    lines = [
        "| trained with | Dice, % | gain ± deviation | another scanner, % | gain ± deviation | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    plain = {row["seed"]: row for row in rows if row["arm"] == "none"}
    for arm, (name, _) in ARMS.items():
        mine = [row for row in rows if row["arm"] == arm and row["seed"] in plain]
        cells = []
        for test in ("same", "other") if mine else ():
            gains = [row[test] - plain[row["seed"]][test] for row in mine]
            spread = f" ± {stdev(gains):.1f}" if len(gains) > 1 else ""
            cells += [each([row[test] for row in mine]), "" if arm == "none" else f"{mean(gains):+.1f}{spread}"]
        if mine:
            lines.append(f"| {name} | {' | '.join(cells)} | {mean(row['cpu_seconds'] for row in mine):.0f} |")
    return "\n".join(lines)
