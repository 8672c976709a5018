"""One row per transform of volumes: the source of their contract tests."""

from dataclasses import dataclass, field

import torch

import pellucid as P


@dataclass(frozen=True)
class Case:
    """A transform in its usual form, in the form that changes nothing, up to rounding, and values where its gradient is smooth.

    A gate is 0.9 there unless ``off_kinks`` says otherwise.
    """

    transform: P.Transform
    identity: P.Transform
    off_kinks: dict[str, float] = field(default_factory=dict)
    rounding: float = 0.0

    @property
    def name(self) -> str:
        return type(self.transform).__name__


CASES = (
    Case(P.RandomAffine3((20, 10, 30), 0.1, scale=(0.8, 1.2), p=0.7), P.RandomAffine3()),
    Case(
        P.RandomAffine3(30, 0.1, scale=((0.8, 1.2), (0.9, 1.1), (0.7, 1.3)), padding_mode="border"),
        P.RandomAffine3(scale=((1, 1),) * 3),
    ),
    Case(P.RandomFlip3("x"), P.RandomFlip3("x", p=0.0), off_kinks={"gate": 0.317}),
    Case(P.RandomFlip3("y"), P.RandomFlip3("y", p=0.0), off_kinks={"gate": 0.317}),
    Case(P.RandomFlip3("z"), P.RandomFlip3("z", p=0.0), off_kinks={"gate": 0.317}),
    Case(P.RandomQuarterTurn3("z", (0, 2), p=0.5), P.RandomQuarterTurn3("z", (0,)), off_kinks={"times": 0.7, "gate": 0.8}),
    Case(P.RandomQuarterTurn3("x", (1, 3)), P.RandomQuarterTurn3("x", (0,)), off_kinks={"times": 0.7}),
    Case(P.RandomCrop3((3, 4, 4)), P.RandomCrop3((6, 8, 7)), off_kinks={"left": 0.3, "top": 0.4, "front": 0.6}),
    Case(
        P.RandomCrop3((8, 4, 9), pad_if_needed=True),
        P.RandomCrop3((6, 8, 7), pad_if_needed=True),
        off_kinks={"left": 0.3, "top": 0.4, "front": 0.6},
    ),
    Case(P.Pad3((1, 0, 2), fill=0.5), P.Pad3(0)),
    Case(P.Resize3((5, 9, 8)), P.Resize3((6, 8, 7))),
    Case(P.RandomElastic3(4, 0.3, p=0.7), P.RandomElastic3(4, 0.0)),
    Case(P.RandomElastic3((3, 2, 4), (0.1, 0.3), border="free"), P.RandomElastic3(3, 0.3, p=0.0)),
    Case(
        P.RandomCrop3((3, 9, 4), foreground=0.5, labels=(1, 3), pad_if_needed=True),
        P.RandomCrop3((6, 8, 7), foreground=1.0),
        off_kinks={"place": 0.3},
    ),
    Case(P.CenterCrop3((3, 9, 4), pad_if_needed=True), P.CenterCrop3((6, 8, 7))),
    Case(P.RandomAffine3(5, scale=(0.8, 1.2), shrinks=True, p=0.7), P.RandomAffine3(shrinks=True)),
    Case(P.RandomGhosting((2, 4), restore=0.3, p=0.7), P.RandomGhosting(intensity=0.0), rounding=1e-6),
    Case(P.RandomSpike((1, 3), intensity=(0.1, 0.3), p=0.7), P.RandomSpike(intensity=0.0)),
    Case(P.RandomMotion(5.0, 1.0, moves=2, axis="y", p=0.7), P.RandomMotion(0.0, 0.0), rounding=1e-6),
    Case(P.RandomLabelsToImage(4, sigma=((0.1, 0.2),) * 4, p=0.7), P.RandomLabelsToImage(4, p=0.0)),
)


def voxels(samples=3, size=(6, 8, 7), channels=2, dtype=torch.float32, seed=0):
    """Smooth volumes with noise, (B, C, D, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((samples, channels, *size), generator=generator, dtype=torch.float64).to(dtype)


def everything(samples=3, size=(6, 8, 7), dtype=torch.float32, spacing=(1.0, 1.0, 2.5)):
    """A batch with every kind of target."""
    generator = torch.Generator().manual_seed(1)
    ends = torch.tensor(tuple(reversed(size)), dtype=torch.float64)
    low = torch.rand((samples, 4, 3), generator=generator, dtype=torch.float64) * (ends - 3)
    affine = torch.diag(torch.tensor((*spacing, 1.0), dtype=torch.float64))
    affine[:3, 3] = torch.tensor((-10.0, 4.0, 7.0))
    return {
        "volume": voxels(samples, size, dtype=dtype),
        "labelmap": torch.randint(0, 5, (samples, *size), generator=generator),
        "points3": torch.rand((samples, 5, 3), generator=generator, dtype=torch.float64) * (ends - 1),
        "cuboids": torch.cat((low, low + 2.0), -1),
        "affine": affine.expand(samples, 4, 4).clone(),
        "labels": torch.arange(samples),
    }
