"""Training of local features: descriptor, detector, and both end to end.

Owns: the public names of the training.
Must not: evaluate.
Read next: ``descriptor.py``.
"""

from pellucid.features.train.descriptor import DescriptorTrainer, train_descriptor
from pellucid.features.train.detector import DetectorTrainer, train_detector
from pellucid.features.train.joint import JointTrainer, train_joint
from pellucid.features.train.settings import DescriptorSettings, DetectorSettings, JointSettings

__all__ = [
    "DescriptorSettings",
    "DescriptorTrainer",
    "DetectorSettings",
    "DetectorTrainer",
    "JointSettings",
    "JointTrainer",
    "train_descriptor",
    "train_detector",
    "train_joint",
]
