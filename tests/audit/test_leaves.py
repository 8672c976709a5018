"""The audit over the layers, losses and box arithmetic that stand on their own: nothing above a note."""

import pytest
import torch

from pellucid import detection, losses, nn
from pellucid.audit import assert_clean


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def boxes(count, seed):
    corner, size = rand(count, 2, seed=seed) * 6, 1 + rand(count, 2, seed=seed + 1) * 3
    return torch.cat((corner, corner + size), -1)


masks = (rand(2, 1, 8, 8, seed=3) > 0.5).double()
SUBJECTS = {
    "standardize": (lambda x: nn.standardize(x, dims=(0, 2, 3), eps=1e-5), (rand(3, 2, 4, 4),)),
    "BatchNorm2d": (nn.BatchNorm2d(2).double(), (rand(3, 2, 4, 4),)),
    "PatchNorm full": (nn.PatchNorm(statistics="full").double(), (rand(3, 1, 6, 6),)),
    "zca_whiten": (lambda x: nn.zca_whiten(x, detach_transforms=False), (rand(12, 3),)),
    "hausdorff_erosion_loss": (lambda x: losses.hausdorff_erosion_loss(x, masks), (rand(2, 1, 8, 8),)),
    "second_order_similarity_loss": (losses.second_order_similarity_loss, (rand(6, 4), rand(6, 4, seed=1))),
    "hardest_triplet_loss": (losses.hardest_triplet_loss, (rand(6, 4), rand(6, 4, seed=1))),
    "consistency": (lambda x, y: losses.consistency(x, y, kind="soft"), (rand(2, 3, 4, 4), rand(2, 3, 4, 4, seed=1))),
    "dense_correspondence": (
        lambda x, y: losses.dense_correspondence(x, y, 0.3 + 2 * rand(2, 3, 3, 2, seed=2)),
        (rand(2, 4, 3, 3), rand(2, 4, 3, 3, seed=1)),
    ),
    "equivariance": (losses.equivariance, (rand(2, 3, 4, 4), rand(2, 3, 4, 4, seed=1))),
    "generalized_box_iou": (detection.generalized_box_iou, (boxes(3, 0), boxes(4, 5))),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SUBJECTS)
def test_leaves_are_clean(name):
    subject, inputs = SUBJECTS[name]
    assert_clean(subject, inputs)
