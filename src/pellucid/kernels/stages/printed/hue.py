"""Hue over rows of pixels.

Owns: the functions that ``python -m printer.printing`` printed from ``pellucid.color.hsv.shift_hue``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused, pick, sign

__all__ = ["hue_backward"]


@fused.noinline.wide
def hue_backward(hue_shift, source, grad, along):  # type: ignore[no-untyped-def]
    """Replace the gradients of the result by those of the source; ``along``: those of each number."""
    along_0, grad_0, grad_1, grad_2, source_0, source_1 = along[0], grad[0], grad[1], grad[2], source[0], source[1]
    source_2 = source[2]
    cast = source_0.dtype.type
    c6, cnan, c1_17549em38, c0, c2 = cast(6.0), cast(np.nan), cast(1.1754943508222875e-38), cast(0.0), cast(2.0)
    c4, c1, c3 = cast(4.0), cast(1.0), cast(3.0)
    k0, k1 = hue_shift * c6, c1 / c6
    for u in range(len(source_0)):
        blue, red, green = source_2[u], source_0[u], source_1[u]
        v3 = (blue == blue) & ((red == red) & (green == green))
        v4, v5 = pick(v3, max(max(red, green), blue), cnan), min(min(red, green), blue)
        v6 = v4 - v5
        v7, v8, v9 = v6 < c1_17549em38, red == v4, green == v4
        v10 = c1 / pick(v7, c1, v6)
        v11 = (pick(v8, green, pick(v9, blue, red)) - pick(v8, blue, pick(v9, red, green))) * v10
        v12 = pick(v7, c0, pick(v8, c0, pick(v9, c2, c4)) + v11) + k0
        v13 = v12 - c6 * np.floor(v12 * k1)
        v14 = pick(v13 < c1, c6 + v13, v13) - c4
        v15, grad2 = abs(v14) - c1, grad_2[u]
        v17, v18 = -grad2, v13 - c2
        v19, grad1 = abs(v18) - c1, grad_1[u]
        v21, v22 = -grad1, v13 - c3
        v23, grad0 = c2 - abs(v22), grad_0[u]
        v25 = -grad0
        v26 = pick((v22 < c0) | (c0 < v22), -pick((c0 <= v23) & (v23 <= c1), v6 * v25, c0) * sign(v22), c0)
        v27 = pick((v18 < c0) | (c0 < v18), pick((c0 <= v19) & (v19 <= c1), v6 * v21, c0) * sign(v18), c0) + v26
        v28 = pick((v14 < c0) | (c0 < v14), pick((c0 <= v15) & (v15 <= c1), v6 * v17, c0) * sign(v14), c0) + v27
        along_0[u] = c6 * v28
        v30 = v10 * pick(v7, c0, v28)
        v31 = -v30
        v32, v33, v34 = pick(v8, c0, v31), pick(v8, c0, v30), pick(v3, v5, cnan)
        v35, v36, v37 = pick(red == v34, c1, c0), pick(v23 < c0, c0, v23), pick(v15 < c0, c0, v15)
        v38 = pick(v19 < c0, c0, v19)
        v39 = pick(c1 < v36, c1, v36) * v25 + (pick(c1 < v37, c1, v37) * v17 + pick(c1 < v38, c1, v38) * v21)
        v40, v41, v42 = pick(v7, c0, -(v11 * v30)) + v39, pick(blue == v34, c1, c0), pick(green == v34, c1, c0)
        v43, v44, v45, v46 = -v40 * (c1 / (v41 + (v35 + v42))), pick(v8, c1, c0), pick(blue == v4, c1, c0), pick(v9, c1, c0)
        v47 = (v40 + (grad0 + (grad1 + grad2))) * (c1 / (v45 + (v44 + v46)))
        grad_0[u] = pick(v9, v32, v33) + (v35 * v43 + v44 * v47)
        grad_1[u] = v42 * v43 + v46 * v47 + (pick(v9, c0, v32) + pick(v8, v30, c0))
        grad_2[u] = v41 * v43 + v45 * v47 + (pick(v8, v31, c0) + pick(v9, v33, c0))
