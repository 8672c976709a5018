"""Reads laid over one another, compiled for the CPU: row by row, no read in memory, rows and sources split over threads.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), and `backward`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.layers.cpu.op import backward, direct, forward

__all__ = ["backward", "direct", "forward"]
