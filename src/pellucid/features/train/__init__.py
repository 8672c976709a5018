"""Training of local features: descriptor, detector, and both end to end.

Owns: the public names of the training.
Must not: evaluate.
Read next: ``descriptor.py``.
"""

from pellucid.features.train.descriptor import DescriptorTrainer, train_descriptor
from pellucid.features.train.settings import DescriptorSettings

__all__ = ["DescriptorSettings", "DescriptorTrainer", "train_descriptor"]
