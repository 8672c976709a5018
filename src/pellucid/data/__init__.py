"""From files to batches: decoding, keyed draws, and passes beside the training step.

Owns: the public names of loading.
Must not: be imported by the rest of the library; nothing here is needed to augment tensors.
Read next: ``samples.py``.
"""

from pellucid.data.collate import Collate, collate
from pellucid.data.decoding import decode
from pellucid.data.prefetch import Prefetcher
from pellucid.data.samples import Indexed, Numbered, Order, Sample, index_of
from pellucid.data.volumes import read_volume, write_volume

__all__ = [
    "Collate", "Indexed", "Numbered", "Order", "Prefetcher", "Sample", "collate", "decode", "index_of", "read_volume",
    "write_volume",
]  # fmt: skip
