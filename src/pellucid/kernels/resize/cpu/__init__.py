"""The antialiased resize compiled for the CPU: sparse weights, one row in the cache, colours in the same pass.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), and `backward`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.resize.cpu.op import backward, direct, forward

__all__ = ["backward", "direct", "forward"]
