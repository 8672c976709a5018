"""The parts that all long runs share: checkpoints, resuming, logs, progress and ranks.

Owns: the public names of the loop around a training step.
Must not: hold a model or a loss; ``features`` and ``learn`` have their own.
Read next: ``loop.py``.
"""

from pellucid.training.checkpoint import TrainState, latest_checkpoint, load_checkpoint, save_checkpoint
from pellucid.training.distributed import World, all_gather_rows, average_gradients, descend, join_world, set_rate
from pellucid.training.log import CsvLog, read_log
from pellucid.training.loop import NonFiniteLoss, fit, fit_run
from pellucid.training.settings import RunSettings, read_settings

__all__ = [
    "CsvLog", "NonFiniteLoss", "RunSettings", "TrainState", "World", "all_gather_rows", "average_gradients", "descend", "fit",
    "fit_run", "join_world", "latest_checkpoint", "load_checkpoint", "read_log", "read_settings", "save_checkpoint", "set_rate",
]  # fmt: skip
