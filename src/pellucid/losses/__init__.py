"""Losses that well-kept libraries do not offer, or offer with gradients that break.

Owns: the public names of the losses.
Must not: hold losses that other libraries do well (Dice, SSIM, focal).
Read next: ``docs/losses.md``.
"""

from pellucid.losses.euclidean import distance_transform
from pellucid.losses.hausdorff_distance import hausdorff_distance_loss
from pellucid.losses.hausdorff_erosion import hausdorff_erosion_loss
from pellucid.losses.hausdorff_level import hausdorff_level_loss
from pellucid.losses.jensen_shannon import jensen_shannon_loss
from pellucid.losses.second_order import second_order_similarity_loss
from pellucid.losses.triplet import hardest_triplet_loss
from pellucid.losses.views import consistency, dense_correspondence, equivariance

__all__ = [
    "consistency", "dense_correspondence", "distance_transform", "equivariance", "hardest_triplet_loss",
    "hausdorff_distance_loss", "hausdorff_erosion_loss", "hausdorff_level_loss", "jensen_shannon_loss",
    "second_order_similarity_loss",
]  # fmt: skip
