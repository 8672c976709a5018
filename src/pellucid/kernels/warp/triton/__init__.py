"""The fused resample for CUDA devices, in Triton: one pass over the image, and its gradients, summed in a fixed order.

Owns: its operators: `forward` (also as `direct`: there is nothing to gain past torch's dispatcher), `backward` and `labels`.
Must not: fall back: it computes, or raises. Importing it does not import Triton.
Read next: ``op.py``.
"""

from pellucid.kernels.warp.triton.op import backward, forward, labels

__all__ = ["backward", "direct", "forward", "labels"]

direct = forward
