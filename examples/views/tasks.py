"""What the examples share: small pictures with labels (scikit-learn's digits, 16 x 16), a small encoder, its nearest neighbours."""

import torch
import torch.nn.functional as F

from pellucid.learn.data import load_pictures, small_task


def pictures(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training pictures and labels, test pictures and labels."""
    task = small_task(load_pictures(), count, seed=seed)
    return task.x, task.y, task.x_test, task.y_test


def small_encoder(features: int) -> torch.nn.Sequential:
    """Pictures of any size to features."""
    return torch.nn.Sequential(
        *dense_encoder(64), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, features)
    )


def dense_encoder(channels: int) -> torch.nn.Sequential:
    """Pictures to feature maps of stride 2."""
    conv = torch.nn.Conv2d
    return torch.nn.Sequential(
        conv(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        conv(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        conv(32, channels, 3, padding=1),
    )


@torch.no_grad()
def nearest_accuracy(
    encoder: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, x_test: torch.Tensor, y_test: torch.Tensor
) -> float:
    """How many test pictures have the label of their nearest neighbour in features."""
    known, asked = F.normalize(encoder(x), dim=1), F.normalize(encoder(x_test), dim=1)
    return (y[(asked @ known.T).argmax(1)] == y_test).float().mean().item()
