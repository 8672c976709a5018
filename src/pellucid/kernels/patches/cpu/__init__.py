"""Patches compiled for the CPU: sampled straight from the pyramid, no grid in memory, patches split over threads.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), and `backward`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.patches.cpu.op import backward, direct, forward

__all__ = ["backward", "direct", "forward"]
