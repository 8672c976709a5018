"""Run a pass's chain of colours on a strip of pixels: forward, forward with the inputs that backward needs, and backward.

Owns: the order of the given steps (``../../stages/chain.py``), and which row holds what.
Must not: read an image.
Read next: ``rows.py``.
"""

from pellucid.kernels.color.cpu import rows
from pellucid.kernels.jit import fused
from pellucid.kernels.stages.chain import CLIPPED, MIXED, TURNED
from pellucid.kernels.stages.printed.hue import hue_backward
from pellucid.kernels.stages.sums import copy_rows, row_sum, store

__all__ = ["back", "first_back", "first_mix", "first_whole", "keep", "paint"]


@fused.inlined
def first_mix(colors, p, cover, source, target):  # type: ignore[no-untyped-def]
    """Mix the channels of read pixels, with offset and fill by their coverage."""
    rows.mix(
        p, colors.matrix, colors.offset, colors.offset + colors.outputs, cover, source, colors.channels, target, colors.outputs
    )


@fused
def first_whole(colors, p, ones, unit, pixels, target):  # type: ignore[no-untyped-def]
    """Do as `first_mix` for pixels times ``unit`` that are covered whole."""
    if colors.matrix >= 0 and colors.channels == 3 and colors.outputs == 3:
        rows.mix_whole(p, colors.matrix, colors.offset, unit, pixels[0], pixels[1], pixels[2], target)
    else:
        first_mix(colors, p, ones, pixels, target)


@fused.inlined
def _step(step, p, bends, ones, source, target, outputs):  # type: ignore[no-untyped-def]
    what, at = step[0], step[1]
    if what == TURNED:
        rows.hue(p[at], source, target)
    elif what == CLIPPED:
        rows.clip(source, target, outputs)
    elif what == MIXED:
        bias = at + outputs * outputs
        rows.mix(p, at, bias, bias + outputs, ones, source, outputs, target, outputs)
    elif bends is not None:
        rows.bend(p, at, step[2], source, target, outputs)


@fused.noinline
def paint(colors, p, bends, ones, source, spare, out, place):  # type: ignore[no-untyped-def]
    """Run the steps after the first mix, and write the result to the output.

    Args:
        bends: None where there is no curve, which is not compiled then.
        source, spare: rows of the first mix's result, and as many scratch rows; both are overwritten.
        place: as `store` takes it.
    """
    steps, outputs, count = colors.steps, colors.outputs, len(colors.steps)
    direct = count > 0 and outputs == 3 and steps[count - 1, 0] == MIXED  # it writes to the output, and clips what it reads
    clips = direct and count > 1 and steps[count - 2, 0] == CLIPPED
    for k in range(count - (2 if clips else 1 if direct else 0)):
        _step(steps[k], p, bends, ones, source, spare, outputs)
        source, spare = spare, source
    if direct:
        at = steps[count - 1, 1]
        rows.finish(p, at, at + outputs * outputs, clips, source, out, place)
    else:
        store(source, out, place, outputs)


@fused.noinline
def keep(colors, p, bends, ones, kept, needed):  # type: ignore[no-untyped-def]
    """Write to ``kept``, one after the other, the inputs of the steps that :func:`back` reads; the first is there already.

    Args:
        needed: whether the parameters want gradients; then all steps' inputs are kept.
    """
    outputs = colors.outputs
    for k in range((len(colors.steps) if needed else colors.deep) - 1):
        here = k * outputs
        _step(colors.steps[k], p, bends, ones, kept[here : here + outputs], kept[here + outputs : here + 2 * outputs], outputs)


@fused.noinline
def back(colors, p, bends, ones, kept, g, spare, scratch, sums, needed):  # type: ignore[no-untyped-def]
    """Turn the gradient g of the result into that of the first mix's result; if ``needed``, add the parameters' to ``sums``.

    Args:
        spare: as many rows as g; both are overwritten.
        scratch: four rows.

    Returns:
        The gradient, and the rows that are spare now.
    """
    outputs = colors.outputs
    for k in range(len(colors.steps) - 1, -1, -1):
        what, at, how = colors.steps[k, 0], colors.steps[k, 1], colors.steps[k, 2]
        x = kept[k * outputs : (k + 1) * outputs]
        if what == CLIPPED:
            rows.clip_backward(x, g, outputs)
        elif what == TURNED:
            hue_backward(p[at], x, g, (scratch[0],))
            if needed:
                sums[at] += row_sum(scratch[0])
        else:
            if what == MIXED:
                bias = at + outputs * outputs
                if needed:
                    rows.mix_sums(sums, at, bias, bias + outputs, ones, g, x, outputs, outputs)
                rows.mix_backward(p, at, g, outputs, spare, outputs)
            elif bends is not None:
                rows.bend_backward(p, at, how, x, g, spare, scratch, sums, needed)
            g, spare = spare, g
    return g, spare


@fused
def first_back(colors, p, cover, source, g, to_source, sums, needed):  # type: ignore[no-untyped-def]
    """The gradient of the read pixels, from that of the first mix's result."""
    if not colors.mixes:
        copy_rows(g, to_source, colors.channels)
        return
    if needed:
        bias = colors.offset
        rows.mix_sums(sums, colors.matrix, bias, bias + colors.outputs, cover, g, source, colors.channels, colors.outputs)
    rows.mix_backward(p, colors.matrix, g, colors.outputs, to_source, colors.channels)
