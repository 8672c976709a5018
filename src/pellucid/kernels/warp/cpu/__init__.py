"""The fused resample compiled for the CPU: one pass over the image, rows split over threads.

Owns: its operators: `forward`, `backward`, `dual` and `labels`; past torch's dispatcher `direct`, `prepared`, `undoing`,
    `back` and `copied`.
Must not: fall back: it computes, or raises.
Read next: ``op.py``.
"""

from pellucid.kernels.warp.cpu.op import back, backward, copied, direct, dual, forward, labels, prepared, undoing

__all__ = ["back", "backward", "copied", "direct", "dual", "forward", "labels", "prepared", "undoing"]
