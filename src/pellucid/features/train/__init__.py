"""Training of local features: descriptor, detector, and both end to end.

Owns: the public names of the training.
Must not: evaluate.
Read next: ``run.py``.
"""

from pellucid.features.train.descriptor import DescriptorTrainer
from pellucid.features.train.detector import DetectorTrainer
from pellucid.features.train.joint import JointTrainer
from pellucid.features.train.run import train
from pellucid.features.train.settings import DescriptorSettings, DetectorSettings, JointSettings

train_descriptor = train_detector = train_joint = train
"""Three names of `train`: the settings say what is trained."""

__all__ = [
    "DescriptorSettings", "DescriptorTrainer", "DetectorSettings", "DetectorTrainer", "JointSettings", "JointTrainer", "train",
    "train_descriptor", "train_detector", "train_joint",
]  # fmt: skip
