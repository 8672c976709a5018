"""Data to train and measure local features on: photographs, pairs of views, patches, and readers of known layouts.

Owns: the public names of the data.
Must not: download anything.
Read next: ``photographs.py``.
"""

from pellucid.data.arrays import read_arrays, read_idx
from pellucid.features.data.pairs import HomographicPairs, ViewPairs
from pellucid.features.data.patch_pairs import PatchBatch, PatchPairs, PatchPool, patch_jitter
from pellucid.features.data.photographs import BUNDLED, ImageFolder, bundled_photographs
from pellucid.features.data.sequences import PlanarSequence, find_sequences, read_sequence, warped_sequences

__all__ = [
    "BUNDLED", "HomographicPairs", "ImageFolder", "PatchBatch", "PatchPairs", "PatchPool", "PlanarSequence", "ViewPairs",
    "bundled_photographs", "find_sequences", "patch_jitter", "read_arrays", "read_idx", "read_sequence", "warped_sequences",
]  # fmt: skip
