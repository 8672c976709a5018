"""The fused resample compiled for the CPU: one pass over the image, rows split over threads.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), `backward`, `dual` and `labels`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.warp.cpu.op import backward, direct, dual, forward, labels

__all__ = ["backward", "direct", "dual", "forward", "labels"]
