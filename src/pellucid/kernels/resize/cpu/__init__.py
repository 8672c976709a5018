"""The antialiased resize compiled for the CPU: sparse weights, one row in the cache, colours in the same pass.

Owns: its operators: `forward`, the same past torch's dispatcher (`direct`), `dual` and `backward`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from pellucid.kernels.resize.cpu.op import backward, direct, dual, forward

__all__ = ["backward", "direct", "dual", "forward"]
