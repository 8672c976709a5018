"""The study as a page and a picture.

Owns: the words, the tables and the plot; every figure comes from the result.
Must not: measure.
Read next: ``../studies.py``.
"""

import math
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pellucid_bench.detach.run import FOOTPRINTS, StudyResult

__all__ = ["as_markdown", "draw", "verdicts"]

_HEAD = """# What detaching patch statistics does, and does not

Patch descriptors standardise their input, `(x - mean) / std`. Published descriptors hold both statistics constant in the backward
pass, and remark that training a detector through them is unstable otherwise. `PatchNorm` and `HardNet` do the same by
default, and take `statistics="full"`. This page has our measurements of that remark. One command writes it:

```
pellucid study detach --write docs
```
"""


def verdicts(result: StudyResult) -> dict[str, bool]:
    """The claims that must hold for the switch to be what it says it is."""
    full, detached = (next(row for row in result.exactness if row.statistics == name) for name in ("full", "detached"))
    return {
        "full statistics agree with finite differences to 2 %": full.error < 0.02,
        "full statistics: no gradient to brightness or contrast (1e-5)": max(full.brightness, full.contrast) < 1e-5,
        "detached statistics: a gradient to both (1e-3)": min(detached.brightness, detached.contrast) > 1e-3,
        "weight gradients are the same (1e-12)": max(row.weights for row in result.exactness) < 1e-12,
        "no step of a training had a gradient that was not finite": sum(t.not_finite for t in result.trained) == 0,
    }


def as_markdown(result: StudyResult, *, picture: str = "img/detach-study.png") -> str:
    """The page."""
    return "\n".join([_HEAD, _gradients(result), _drift(result), _signal(result), _training(result, picture), _claims(result)])


def _table(header: str, rows: list[str]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|" + "---|" * columns, *rows])


def _gradients(result: StudyResult) -> str:
    rows = [
        f"| {r.statistics} | {r.error:.2g} | {r.cosine:.4f} | {r.brightness:.1e} | {r.contrast:.1e} | {r.weights:.0e} |"
        for r in result.exactness
    ]
    header = "| statistics | error of dL/d frame | cosine | dL/d brightness | dL/d contrast | weight gradients differ by |"
    return f"""## Is the gradient right?

{result.keypoints} corners of photographs, each with a second view in another light, 2 pixels off. L is the squared distance of the
two descriptors (a quarter-width HardNet, random weights, float64). The error is relative, over the six numbers of every frame,
against central differences of the loss itself. The descriptor cannot see brightness or contrast, so their true derivatives are 0.

{_table(header, rows)}

Under `full`, only the error of the finite differences is left, and the floor of the standard deviation (3e-4) lets a little
contrast through. The weights get the same gradient under every policy: detaching concerns the input only.
"""


def _drift(result: StudyResult) -> str:
    rows = [
        f"| {d.statistics} | {d.seed} | {d.brightness[-1]:+.1e} | {d.contrast - 1:+.1e} | {d.loss_change:+.1e} |"
        for d in result.drift
    ]
    return f"""## What a learnable brightness does with it

Half of the second view's patches have one learnable brightness and one contrast.
They take {len(result.drift[0].brightness) - 1} plain gradient steps of rate 0.05 on
the mean of L. A correct gradient leaves both where they are.

{_table("| statistics | seed | brightness (from 0) | contrast - 1 | change of the loss |", rows)}
"""


def _signal(result: StudyResult) -> str:
    rows = []
    for footprint in FOOTPRINTS:
        plain, smooth = result.signal[footprint, False], result.signal[footprint, True]
        rows.append(
            f"| {footprint} px | {plain.snr:.2f} | {smooth.snr:.2f} | {smooth.snr / plain.snr:.1f} x "
            f"| {plain.right_way:.0%} | {smooth.right_way:.0%} |"
        )
    header = "| footprint | plain | antialiased | ratio | right way, plain | right way, antialiased |"
    return f"""## Where the noise really comes from

The table has the gradient to a displaced keypoint, projected on the direction back to the true place: its mean over its standard
deviation (`keypoint_gradient_signal`), for patches of 32 samples a side of all bundled photographs. With more than one pixel
between samples the picture aliases unless it is blurred first. Photographs without fine texture gain less, so the figures hold for
this set.

{_table(header, rows)}
"""


def _training(result: StudyResult, picture: str) -> str:
    rows = [f"| {t.seed} | {t.start:.3f} | {t.detached:.3f} | {t.full:.3f} | {t.full - t.detached:+.3f} |" for t in result.trained]
    gaps = [t.full - t.detached for t in result.trained]
    columns = [[t.start for t in result.trained], [t.detached for t in result.trained], [t.full for t in result.trained]]
    rows.append(f"| mean | {' | '.join(f'{mean(column):.3f}' for column in columns)} | {mean(gaps):+.3f} |")
    if len(gaps) == 1:
        said = "One seed says nothing."
    else:
        reach = _STUDENT[len(gaps)] * stdev(gaps) / math.sqrt(len(gaps))
        low, high = mean(gaps) - reach, mean(gaps) + reach
        meaning = "contains 0: a null result" if low <= 0 <= high else "does not contain 0"
        said = f"95 % interval of the mean difference over seeds (Student's t): {low:+.3f} to {high:+.3f}. It {meaning}."
    gain = mean((t.detached + t.full) / 2 - t.start for t in result.trained)
    through = "raised" if gain > 0 else "lowered"
    return f"""## Does a detector train better one way?

A `KeypointNet` trains for {result.plan.warm_steps} steps on responses, then for {result.plan.steps} steps through patches
and a constant descriptor with the pair term alone, which here {through} repeatability by {abs(gain):.3f}. The table has the
repeatability within 2 px of the 40 strongest keypoints, on {result.plan.held_out} pairs of 128x128 views of photographs
not trained on.

{_table("| seed | before | detached | full | full - detached |", rows)}

{said} With so few seeds and steps, the study could not show an effect much smaller than that.

![Gradients, drift, signal-to-noise ratio and repeatability]({picture})
"""


_STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""Quantiles of Student's t for two-sided 95 %, by the number of seeds."""

_ADVICE = """## What follows

* To train weights, the policy makes no difference.
* If you learn or attack brightness, contrast or anything photometric, take `statistics="full"`: with detached statistics
  these parameters drift without lowering the loss.
* To train a detector through patches, antialias first (`extract_patches` does); the policy after it matters less.
"""


def _claims(result: StudyResult) -> str:
    rows = [f"| {claim} | {'holds' if true else '**does not hold**'} |" for claim, true in verdicts(result).items()]
    return f"""{_ADVICE}
## Guards

{_table("| claim | |", rows)}

{result.seconds:.0f} s of processor time on one thread.
"""


def draw(result: StudyResult, path: Path) -> None:
    """Four panels: exactness, drift, signal, training."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.8), constrained_layout=True)
    _draw_exactness(axes[0], result)
    _draw_drift(axes[1], result)
    _draw_signal(axes[2], result)
    _draw_training(axes[3], result)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


_FULL, _DETACHED, _GREY = "#0072b2", "#d55e00", "#888888"


def _draw_exactness(axis: Any, result: StudyResult) -> None:
    names = [str(row.statistics) for row in result.exactness]
    colors = [{"full": _FULL, "detached": _DETACHED}.get(name, _GREY) for name in names]
    bars = axis.bar([n.replace("_", "\n") for n in names], [100 * row.error for row in result.exactness], color=colors)
    axis.bar_label(bars, [f"{100 * row.error:.2g} %" for row in result.exactness], padding=2)
    axis.set(title="keypoint gradient: error\nagainst finite differences", ylabel="%")
    axis.margins(y=0.15)


def _draw_drift(axis: Any, result: StudyResult) -> None:
    for color, name in ((_FULL, "full"), (_DETACHED, "detached")):
        for number, row in enumerate(d for d in result.drift if d.statistics == name):
            axis.plot(row.brightness, color=color, label=name if number == 0 else None)
    axis.set(title="learnable brightness the\nloss does not depend on", xlabel="gradient steps", ylabel="brightness")
    axis.legend(frameon=False)


def _draw_signal(axis: Any, result: StudyResult) -> None:
    for color, label, smooth in ((_GREY, "plain", False), (_FULL, "antialiased", True)):
        values = [result.signal[footprint, smooth].snr for footprint in FOOTPRINTS]
        axis.plot(range(len(FOOTPRINTS)), values, "o-", color=color, label=label)
    axis.set_xticks(range(len(FOOTPRINTS)), [str(f) for f in FOOTPRINTS])
    axis.set(title="keypoint gradient:\nsignal to noise", xlabel="footprint, pixels (32 samples)")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)


def _draw_training(axis: Any, result: StudyResult) -> None:
    for row in result.trained:
        axis.plot([0, 1, 2], [row.start, row.detached, row.full], "-", color="#cccccc", zorder=1)
        axis.scatter([0, 1, 2], [row.start, row.detached, row.full], color=[_GREY, _DETACHED, _FULL], zorder=2)
    axis.set_xticks([0, 1, 2], ["before", "detached", "full"])
    axis.set_xlim(-0.4, 2.4)
    axis.set(title="detector trained through\npatches, one line per seed", ylabel="repeatability at 2 px")
