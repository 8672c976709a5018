"""The antialiased resize compiled for the CPU: sparse weights, one row in the cache, colours in the same pass.

Owns: its operators: `forward`, `backward` and `dual`; past torch's dispatcher `direct`, `prepared` and `back`; and
`settled`, `unsettled` and `settled_in_memory`, with colours that depend on the mean of the result.
Must not: fall back: it computes, or raises.
Read next: ``op.py``.
"""

from pellucid.kernels.resize.cpu.op import back, backward, direct, dual, forward, prepared, settled, settled_in_memory, unsettled

__all__ = ["back", "backward", "direct", "dual", "forward", "prepared", "settled", "settled_in_memory", "unsettled"]
