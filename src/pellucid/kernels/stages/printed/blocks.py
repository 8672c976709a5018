"""Stages on blocks of pixels, for Triton: each takes numbers, then tuples of channels, and returns such tuples.

Owns: the functions that ``python -m printer.printing`` printed from the references in ``../colour.py``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.lanes import greater, lesser, over, raised

__all__ = [
    "clip", "clip_backward", "gated_hsv", "gated_hsv_backward", "hue",
    "hue_backward", "posterize", "posterize_backward", "posterize_bytes", "posterize_bytes_backward",
    "power", "power_backward", "solarize", "solarize_backward", "solarize_bytes",
    "solarize_bytes_backward",
]  # fmt: skip


@triton.jit
def clip(source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    return (lesser(greater(x, 0.0), 1.0),)


@triton.jit
def clip_backward(source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    return (tl.where(x == lesser(greater(x, 0.0), 1.0), grad0, 0.0),)


@triton.jit
def hue(hue_shift, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    red, green, blue = source
    v0 = greater(greater(red, green), blue)
    v1 = v0 - lesser(lesser(red, green), blue)
    v2, v3, v4 = v1 < 1.1754943508222875e-38, red == v0, green == v0
    v5 = tl.where(v3, green, tl.where(v4, blue, red)) - tl.where(v3, blue, tl.where(v4, red, green))
    v6 = tl.where(v2, 0.0, tl.where(v3, 0.0, tl.where(v4, over(2.0, red), 4.0)) + v5 * (1.0 / tl.where(v2, 1.0, v1)))
    v7 = v6 + hue_shift * 6.0
    v8 = tl.fma(over(-6.0, red), tl.floor(v7 * 0.16666666666666666), v7)
    v9 = tl.fma(-v1, lesser(greater(tl.abs(tl.where(v8 < 1.0, 6.0 + v8, v8) - 4.0) - 1.0, 0.0), 1.0), v0)
    v10 = tl.fma(-v1, lesser(greater(2.0 - tl.abs(v8 - 3.0), 0.0), 1.0), v0)
    return (v10, tl.fma(-v1, lesser(greater(tl.abs(v8 - 2.0) - 1.0, 0.0), 1.0), v0), v9)


@triton.jit
def hue_backward(hue_shift, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    red, green, blue = source
    grad0, grad1, grad2 = grad
    v0, v1 = greater(greater(red, green), blue), lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3, v4, v5 = v2 < 1.1754943508222875e-38, red == v0, green == v0
    v6 = 1.0 / tl.where(v3, 1.0, v2)
    v7 = (tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))) * v6
    v8 = tl.where(v3, 0.0, tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0)) + v7) + hue_shift * 6.0
    v9 = tl.fma(over(-6.0, red), tl.floor(v8 * 0.16666666666666666), v8)
    v10 = tl.where(v9 < 1.0, 6.0 + v9, v9) - 4.0
    v11 = tl.abs(v10) - 1.0
    v12, v13 = lesser(greater(v11, 0.0), 1.0), -grad2
    v14, v15 = v2 * v13, v9 - 2.0
    v16 = tl.abs(v15) - 1.0
    v17, v18 = lesser(greater(v16, 0.0), 1.0), -grad1
    v19, v20 = v2 * v18, v9 - 3.0
    v21 = 2.0 - tl.abs(v20)
    v22, v23 = lesser(greater(v21, 0.0), 1.0), -grad0
    v24, v25 = v2 * v23, tl.where(v16 == v17, tl.where(v15 < 0.0, -v19, v19), 0.0)
    v26 = v25 + tl.where(v21 == v22, tl.where(v20 < 0.0, v24, -v24), 0.0)
    v27 = tl.where(v11 == v12, tl.where(v10 < 0.0, -v14, v14), 0.0) + v26
    v28 = v6 * tl.where(v3, 0.0, v27)
    v29, v30, v31 = -v28, red == v1, tl.fma(v17, v18, tl.fma(v12, v13, tl.fma(v22, v23, tl.where(v3, 0.0, -(v7 * v28)))))
    v32, v33 = green == v1, blue == v1
    v34 = v30 & v33
    v35 = -v31 * tl.where(v32 & v34, 0.3333333333333333, tl.where(v34 | v30 & v32 | v32 & v33, over(0.5, red), 1.0))
    v36 = blue == v0
    v37 = v4 & v36
    v38 = tl.where(v5 & v37, 0.3333333333333333, tl.where(v37 | v4 & v5 | v5 & v36, over(0.5, red), 1.0))
    v39 = (v31 + (grad0 + (grad1 + grad2))) * v38
    v40 = tl.fma(tl.where(v30, over(1.0, red), 0.0), v35, tl.where(v4, 0.0, tl.where(v5, v29, v28)))
    v41 = tl.fma(tl.where(v32, over(1.0, red), 0.0), v35, tl.where(v4, v28, tl.where(v5, 0.0, v29)))
    v42 = tl.fma(tl.where(v33, over(1.0, red), 0.0), v35, tl.where(v4, v29, tl.where(v5, v28, 0.0)))
    v43, v44 = tl.fma(tl.where(v36, over(1.0, red), 0.0), v39, v42), tl.fma(tl.where(v4, over(1.0, red), 0.0), v39, v40)
    return (6.0 * v27,), (v44, tl.fma(tl.where(v5, over(1.0, red), 0.0), v39, v41), v43)


@triton.jit
def gated_hsv(hue, saturation, value, gate, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    red, green, blue = source
    v0, v1 = 1.0 - gate, greater(greater(red, green), blue)
    v2, v3 = lesser(greater(value + v1, 0.0), 1.0), v1 - lesser(lesser(red, green), blue)
    v4 = v3 < 1.1754943508222875e-38
    v5 = v4 | (v1 < 1.1754943508222875e-38)
    v6, v7 = v2 * lesser(greater(tl.where(v5, 0.0, saturation + v3 * (1.0 / tl.where(v5, 1.0, v1))), 0.0), 1.0), red == v1
    v8 = green == v1
    v9 = tl.where(v7, green, tl.where(v8, blue, red)) - tl.where(v7, blue, tl.where(v8, red, green))
    v10 = tl.where(v4, 0.0, tl.where(v7, 0.0, tl.where(v8, over(2.0, red), 4.0)) + v9 * (1.0 / tl.where(v4, 1.0, v3)))
    v11 = v10 + hue * 6.0
    v12 = tl.fma(over(-6.0, red), tl.floor(v11 * 0.16666666666666666), v11)
    v13 = tl.fma(-v6, lesser(greater(tl.abs(tl.where(v12 < 1.0, 6.0 + v12, v12) - 4.0) - 1.0, 0.0), 1.0), v2)
    v14 = tl.fma(over(gate, red), tl.fma(-v6, lesser(greater(tl.abs(v12 - 2.0) - 1.0, 0.0), 1.0), v2), green * v0)
    v15 = tl.fma(over(gate, red), tl.fma(-v6, lesser(greater(2.0 - tl.abs(v12 - 3.0), 0.0), 1.0), v2), red * v0)
    return (v15, v14, tl.fma(over(gate, red), v13, blue * v0))


@triton.jit
def gated_hsv_backward(hue, saturation, value, gate, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    red, green, blue = source
    grad0, grad1, grad2 = grad
    v0, v1 = greater(greater(red, green), blue), lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3, v4, v5 = v2 < 1.1754943508222875e-38, red == v0, green == v0
    v6 = 1.0 / tl.where(v3, 1.0, v2)
    v7 = (tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))) * v6
    v8 = tl.where(v3, 0.0, tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0)) + v7) + hue * 6.0
    v9 = tl.fma(over(-6.0, red), tl.floor(v8 * 0.16666666666666666), v8)
    v10 = tl.where(v9 < 1.0, 6.0 + v9, v9) - 4.0
    v11 = tl.abs(v10) - 1.0
    v12, v13 = lesser(greater(v11, 0.0), 1.0), value + v0
    v14, v15 = lesser(greater(v13, 0.0), 1.0), v3 | (v0 < 1.1754943508222875e-38)
    v16 = 1.0 / tl.where(v15, 1.0, v0)
    v17 = v2 * v16
    v18 = tl.where(v15, 0.0, saturation + v17)
    v19 = lesser(greater(v18, 0.0), 1.0)
    v20, v21 = v14 * v19, gate * grad2
    v22 = -v21
    v23, v24 = v20 * v22, v9 - 2.0
    v25 = tl.abs(v24) - 1.0
    v26, v27 = lesser(greater(v25, 0.0), 1.0), gate * grad1
    v28 = -v27
    v29, v30 = v20 * v28, v9 - 3.0
    v31 = 2.0 - tl.abs(v30)
    v32, v33 = lesser(greater(v31, 0.0), 1.0), gate * grad0
    v34 = -v33
    v35, v36 = v20 * v34, tl.where(v25 == v26, tl.where(v24 < 0.0, -v29, v29), 0.0)
    v37 = v36 + tl.where(v31 == v32, tl.where(v30 < 0.0, v35, -v35), 0.0)
    v38 = tl.where(v11 == v12, tl.where(v10 < 0.0, -v23, v23), 0.0) + v37
    v39 = tl.fma(v12, v22, tl.fma(v32, v34, v26 * v28))
    v40 = tl.where(v15, 0.0, tl.where(v18 == v19, v14 * v39, 0.0))
    v41 = tl.where(v13 == v14, tl.fma(v19, v39, v33 + (v21 + v27)), 0.0)
    v42 = tl.fma(grad1, tl.fma(-v20, v26, v14), tl.fma(grad0, tl.fma(-v20, v32, v14), -(green * grad1)))
    v43 = v6 * tl.where(v3, 0.0, v38)
    v44, v45 = -v43, v16 * v40
    v46, v47 = v45 + tl.where(v3, 0.0, -(v7 * v43)), blue == v0
    v48 = v4 & v47
    v49 = tl.where(v5 & v48, 0.3333333333333333, tl.where(v48 | v4 & v5 | v5 & v47, over(0.5, red), 1.0))
    v50, v51 = (v46 + (v41 + tl.where(v15, 0.0, -(v17 * v45)))) * v49, 1.0 - gate
    v52, v53 = tl.fma(tl.where(v4, over(1.0, red), 0.0), v50, tl.where(v4, 0.0, tl.where(v5, v44, v43))), red == v1
    v54, v55 = green == v1, blue == v1
    v56 = v53 & v55
    v57 = -v46 * tl.where(v54 & v56, 0.3333333333333333, tl.where(v56 | v53 & v54 | v54 & v55, over(0.5, red), 1.0))
    v58 = tl.where(v4, v43, 0.0) + tl.where(v5, 0.0, tl.where(v4, 0.0, v44))
    v59 = tl.fma(grad1, over(v51, red), tl.fma(tl.where(v5, over(1.0, red), 0.0), v50, v58))
    v60 = tl.where(v5, tl.where(v4, 0.0, v43), 0.0) + tl.where(v4, v44, 0.0)
    v61 = tl.fma(grad2, over(v51, red), tl.fma(tl.where(v47, over(1.0, red), 0.0), v50, v60))
    v62 = tl.fma(-blue, grad2, tl.fma(-red, grad0, tl.fma(grad2, tl.fma(-v20, v12, v14), v42)))
    v63 = tl.fma(tl.where(v53, over(1.0, red), 0.0), v57, tl.fma(grad0, over(v51, red), v52))
    v64 = tl.fma(tl.where(v54, over(1.0, red), 0.0), v57, v59)
    return (6.0 * v38, v40, v41, v62), (v63, v64, tl.fma(tl.where(v55, over(1.0, red), 0.0), v57, v61))


@triton.jit
def power(exponent, gain, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    v0 = 0.0 < x
    return (tl.where(v0, gain * raised(tl.where(v0, x, 1.0), exponent), 0.0),)


@triton.jit
def power_backward(exponent, gain, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0 = 0.0 < x
    v1, v2 = tl.where(v0, x, 1.0), tl.where(v0, grad0, 0.0)
    v3, v4 = gain * v2, raised(v1, exponent)
    v5 = tl.where(v0, tl.where(exponent == over(0.0, x), 0.0, v3 * (exponent * raised(v1, exponent - 1.0))), 0.0)
    return (tl.where((0.0 == v1) & (0.0 <= over(exponent, x)), 0.0, v3 * (v4 * tl.log(v1))), v4 * v2), (v5,)


@triton.jit
def solarize(amount, gain, gate, reach, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    v0, v1 = x + 0.0, 1.0 - x
    v2 = (tl.where(amount + reach <= v0, v1, x) - tl.where(amount - reach <= v0, v1, x)) * (1.0 / (reach * 2.0))
    return (tl.fma(over(gate, x), tl.fma(over(amount - amount, x), v2, tl.where(amount <= v0, v1, x)), x * (1.0 - gate)),)


@triton.jit
def solarize_backward(amount, gain, gate, reach, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0, v1 = x + 0.0, 1.0 - x
    v2 = (tl.where(amount + reach <= v0, v1, x) - tl.where(amount - reach <= v0, v1, x)) * (1.0 / (reach * 2.0))
    v3, v4 = gate * grad0, amount <= v0
    v5 = tl.fma(grad0, tl.fma(over(amount - amount, x), v2, tl.where(v4, v1, x)), -(x * grad0))
    return (v2 * v3, 0.0, v5, 0.0), (tl.fma(grad0, over(1.0 - gate, x), tl.where(v4, 0.0, v3) - tl.where(v4, v3, 0.0)),)


@triton.jit
def solarize_bytes(amount, gain, gate, reach, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    v0 = tl.where(amount <= x + 3.92156862745098e-06, 1.0 - x, x) + (amount - amount)
    return (tl.fma(over(gate, x), v0, x * (1.0 - gate)),)


@triton.jit
def solarize_bytes_backward(amount, gain, gate, reach, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0, v1 = gate * grad0, amount <= x + 3.92156862745098e-06
    v2 = tl.fma(grad0, over(1.0 - gate, x), tl.where(v1, 0.0, v0) - tl.where(v1, v0, 0.0))
    return (v0, 0.0, tl.fma(grad0, tl.where(v1, 1.0 - x, x) + (amount - amount), -(x * grad0)), 0.0), (v2,)


@triton.jit
def posterize(amount, gain, gate, reach, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    v0 = tl.exp2(8.0 - tl.floor(0.5 + (amount - reach)))
    v1 = lesser(greater(tl.fma(x, over(255.0, x), over(0.001, x)), 0.0), 255.0)
    v2, v3 = tl.exp2(8.0 - tl.floor(0.5 + (amount + reach))), -(0.00392156862745098 * (v0 * tl.floor(v1 * (1.0 / v0))))
    v4 = tl.fma(over(0.00392156862745098, x), v2 * tl.floor(v1 * (1.0 / v2)), v3) * (1.0 / (reach * 2.0))
    v5 = tl.exp2(8.0 - tl.floor(amount + 0.5))
    v6 = 1.0 / v5
    v7 = tl.fma(v5 * tl.floor(v1 * v6), over(0.00392156862745098, x), (amount - amount) * v4)
    return (tl.fma(over(gate, x), tl.fma(x - x, 1.0 + tl.cos(x * (1602.2122533307945 * v6)), v7), x * (1.0 - gate)),)


@triton.jit
def posterize_backward(amount, gain, gate, reach, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0 = tl.exp2(8.0 - tl.floor(0.5 + (amount - reach)))
    v1 = lesser(greater(tl.fma(x, over(255.0, x), over(0.001, x)), 0.0), 255.0)
    v2, v3 = tl.exp2(8.0 - tl.floor(0.5 + (amount + reach))), -(0.00392156862745098 * (v0 * tl.floor(v1 * (1.0 / v0))))
    v4, v5 = tl.fma(over(0.00392156862745098, x), v2 * tl.floor(v1 * (1.0 / v2)), v3) * (1.0 / (reach * 2.0)), gate * grad0
    v6 = tl.exp2(8.0 - tl.floor(amount + 0.5))
    v7 = 1.0 / v6
    v8 = 1.0 + tl.cos(x * (1602.2122533307945 * v7))
    v9 = tl.fma(x - x, v8, tl.fma(v6 * tl.floor(v1 * v7), over(0.00392156862745098, x), (amount - amount) * v4))
    return (v4 * v5, 0.0, tl.fma(grad0, v9, -(x * grad0)), 0.0), (tl.fma(grad0, over(1.0 - gate, x), v8 * v5),)


@triton.jit
def posterize_bytes(amount, gain, gate, reach, source):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    x = source[0]
    v0 = tl.exp2(8.0 - tl.floor(amount + 0.5))
    v1 = v0 * tl.floor(lesser(greater(tl.fma(x, over(255.0, x), over(0.001, x)), 0.0), 255.0) * (1.0 / v0))
    return (tl.fma(over(gate, x), tl.fma(v1, over(0.00392156862745098, x), x - x + (amount - amount)), x * (1.0 - gate)),)


@triton.jit
def posterize_bytes_backward(amount, gain, gate, reach, source, grad):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0, v1 = gate * grad0, tl.exp2(8.0 - tl.floor(amount + 0.5))
    v2 = v1 * tl.floor(lesser(greater(tl.fma(x, over(255.0, x), over(0.001, x)), 0.0), 255.0) * (1.0 / v1))
    v3 = tl.fma(grad0, tl.fma(v2, over(0.00392156862745098, x), x - x + (amount - amount)), -(x * grad0))
    return (v0, 0.0, v3, 0.0), (tl.fma(grad0, over(1.0 - gate, x), v0),)
