"""The fused resample compiled for the CPU: one pass over the image, rows split over threads.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), `backward`, this past it (`back`), `dual` and `labels`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.warp.cpu.op import back, backward, direct, dual, forward, labels

__all__ = ["back", "backward", "direct", "dual", "forward", "labels"]
