"""Stages on blocks of pixels, for Triton: each takes numbers, then tuples of channels, and returns such tuples.

Owns: what ``python -m pellucid.kernels.stages.printing`` printed of the references in ``../colour.py``.
Must not: be edited: change the reference, and print it again.
Read next: ``../blocks.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.lanes import greater, lesser, over, raised

__all__ = ["clip", "clip_backward", "hue", "hue_backward"]


@triton.jit
def clip(source):  # type: ignore[no-untyped-def]
    """Target = the stage of the source."""
    x = source[0]
    v0 = lesser(greater(x, 0.0), 1.0)
    return v0,


@triton.jit
def clip_backward(source, grad):  # type: ignore[no-untyped-def]
    """Write the gradients of the source, and along those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0 = lesser(greater(x, 0.0), 1.0)
    v1 = tl.where(x == v0, grad0, 0.0)
    return v1,


@triton.jit
def hue(hue_shift, source):  # type: ignore[no-untyped-def]
    """Target = the stage of the source."""
    red, green, blue = source
    v0 = greater(greater(red, green), blue)
    v1 = lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3 = v2 < 1.1754943508222875e-38
    v4 = red == v0
    v5 = green == v0
    v6 = tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))
    v7 = 1.0 / tl.where(v3, 1.0, v2)
    v8 = v6 * v7
    v9 = (tl.where(v3, 0.0, (tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0))) + v8)) + (hue_shift * 6.0)
    v10 = tl.fma(over(-6.0, red), tl.floor(v9 * 0.16666666666666666), v9)
    v11 = v10 - 3.0
    v12 = 2.0 - tl.abs(v11)
    v13 = lesser(greater(v12, 0.0), 1.0)
    v14 = tl.fma(-v2, v13, v0)
    v15 = v10 - 2.0
    v16 = tl.abs(v15) - 1.0
    v17 = lesser(greater(v16, 0.0), 1.0)
    v18 = tl.fma(-v2, v17, v0)
    v19 = tl.where(v10 < 1.0, 6.0 + v10, v10) - 4.0
    v20 = tl.abs(v19) - 1.0
    v21 = lesser(greater(v20, 0.0), 1.0)
    v22 = tl.fma(-v2, v21, v0)
    return v14, v18, v22


@triton.jit
def hue_backward(hue_shift, source, grad):  # type: ignore[no-untyped-def]
    """Write the gradients of the source, and along those of each number."""
    red, green, blue = source
    grad0, grad1, grad2 = grad
    v0 = greater(greater(red, green), blue)
    v1 = lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3 = v2 < 1.1754943508222875e-38
    v4 = red == v0
    v5 = green == v0
    v6 = tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))
    v7 = 1.0 / tl.where(v3, 1.0, v2)
    v8 = v6 * v7
    v9 = (tl.where(v3, 0.0, (tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0))) + v8)) + (hue_shift * 6.0)
    v10 = tl.fma(over(-6.0, red), tl.floor(v9 * 0.16666666666666666), v9)
    v11 = tl.where(v10 < 1.0, 6.0 + v10, v10) - 4.0
    v12 = tl.abs(v11) - 1.0
    v13 = lesser(greater(v12, 0.0), 1.0)
    v14 = -grad2
    v15 = v2 * v14
    v16 = v10 - 2.0
    v17 = tl.abs(v16) - 1.0
    v18 = lesser(greater(v17, 0.0), 1.0)
    v19 = -grad1
    v20 = v2 * v19
    v21 = v10 - 3.0
    v22 = 2.0 - tl.abs(v21)
    v23 = lesser(greater(v22, 0.0), 1.0)
    v24 = -grad0
    v25 = v2 * v24
    v26 = tl.where(v17 == v18, tl.where(v16 < 0.0, -v20, v20), 0.0) + tl.where(v22 == v23, tl.where(v21 < 0.0, v25, -v25), 0.0)
    v27 = tl.where(v12 == v13, tl.where(v11 < 0.0, -v15, v15), 0.0) + v26
    v28 = 6.0 * v27
    v29 = v7 * tl.where(v3, 0.0, v27)
    v30 = -v29
    v31 = red == v1
    v32 = tl.fma(v18, v19, tl.fma(v13, v14, tl.fma(v23, v24, tl.where(v3, 0.0, -(v8 * v29)))))
    v33 = green == v1
    v34 = blue == v1
    v35 = v31 & v34
    v36 = tl.where(v33 & v35, 0.3333333333333333, tl.where((v35 | (v31 & v33)) | (v33 & v34), over(0.5, red), 1.0))
    v37 = (-v32) * v36
    v38 = blue == v0
    v39 = v4 & v38
    v40 = tl.where(v5 & v39, 0.3333333333333333, tl.where((v39 | (v4 & v5)) | (v5 & v38), over(0.5, red), 1.0))
    v41 = (v32 + (grad0 + (grad1 + grad2))) * v40
    v42 = tl.fma(tl.where(v4, over(1.0, red), 0.0), v41, tl.fma(tl.where(v31, over(1.0, red), 0.0), v37, tl.where(v4, 0.0, tl.where(v5, v30, v29))))
    v43 = tl.fma(tl.where(v5, over(1.0, red), 0.0), v41, tl.fma(tl.where(v33, over(1.0, red), 0.0), v37, tl.where(v4, v29, tl.where(v5, 0.0, v30))))
    v44 = tl.fma(tl.where(v38, over(1.0, red), 0.0), v41, tl.fma(tl.where(v34, over(1.0, red), 0.0), v37, tl.where(v4, v30, tl.where(v5, v29, 0.0))))
    return (v28,), (v42, v43, v44)
