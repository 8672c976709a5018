"""Time the Hausdorff losses against kornia's, and draw their curves against shift and sharpness.

    python benchmarks/hausdorff.py                      # the table, 8x1x128x128, one thread
    python benchmarks/hausdorff.py --plot docs/img      # hausdorff_curves.png

Every loss runs in this process, on the same tensors, after warm-up; medians and quartiles of wall time.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch

from pellucid.losses import hausdorff_distance_loss, hausdorff_erosion_loss, hausdorff_level_loss

STROKES = {"erosion": "-", "distance": "-", "level": (0, (4, 3))}  # two that coincide are both seen
LOSSES = {"erosion": hausdorff_erosion_loss, "distance": hausdorff_distance_loss, "level": hausdorff_level_loss}


def disc(shift, sharpness, size=128, radius=12.0, start=24.0):
    """A soft disc, moved right by ``shift`` pixels; ``sharpness`` is the slope of its logit per pixel."""
    y, x = torch.meshgrid(torch.arange(size, dtype=torch.float64), torch.arange(size, dtype=torch.float64), indexing="ij")
    distance = ((x - start - shift).square() + (y - size / 2).square() + 1e-12).sqrt()
    return torch.sigmoid(sharpness * (radius - distance))[None, None]


def slope(loss, prediction, target):
    """Loss, and the largest gradient on the target (anywhere, if the target is empty), times the number of pixels."""
    q = prediction.clone().requires_grad_()
    value = loss(q, target)
    (gradient,) = torch.autograd.grad(value, q)
    where = target > 0.5
    return float(value.detach()), float((gradient[where] if where.any() else gradient).abs().max() * q.numel())


def draw(axis, title, xs, predictions, target, *, gradient=False, relative=True, **settings):
    for name, loss in LOSSES.items():
        ys = [slope(loss, q, target)[int(gradient)] for q in predictions]
        top = max(max(ys), 1e-12) if relative else 1.0
        axis.plot(xs, [max(y / top, 1e-4) for y in ys], linestyle=STROKES[name], linewidth=2, label=name)
    axis.set(title=title, **settings)
    axis.grid(alpha=0.3)


def plot(folder):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    target = (disc(0.0, 50.0) > 0.5).double()
    shifts = list(range(0, 81, 2))
    slopes = torch.logspace(-3, 1.5, 40).tolist()
    flat = torch.linspace(0.02, 0.98, 25).tolist()
    figure, axes = plt.subplots(2, 3, figsize=(14, 7.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    shift = {"xlabel": "shift, pixels", "ylabel": "loss / its maximum"}
    draw(axes[0, 0], "crisp disc, radius 12", shifts, [disc(s, 50.0) for s in shifts], target, **shift)
    draw(axes[0, 1], "blurred disc (logit slope 0.3)", shifts, [disc(s, 0.3) for s in shifts], target, **shift)
    draw(axes[0, 2], "faint disc (peak 0.25)", shifts, [0.25 * disc(s, 50.0) for s in shifts], target, **shift)
    sharp = {"xlabel": "sharpness (logit slope per pixel)", "xscale": "log", "yscale": "log"}
    predictions = [disc(6.0, k) for k in slopes]
    draw(axes[1, 0], "disc 6 px off", slopes, predictions, target, ylabel="loss / its maximum", **sharp)
    size = {"gradient": True, "relative": False, "ylabel": "largest |gradient| x pixels"}
    draw(axes[1, 1], "disc 6 px off: gradient on the target", slopes, predictions, target, **size, **sharp)
    uniform = [torch.full_like(target, c) for c in flat]
    draw(axes[1, 2], "empty target: gradient", flat, uniform, 0 * target, **size, xlabel="uniform prediction", yscale="log")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, title="zeros are drawn as 1e-4")
    path = Path(folder) / "hausdorff_curves.png"
    figure.savefig(path, dpi=80)
    print(f"wrote {path}")


def milliseconds(call, repeats=15):
    for _ in range(2):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:7.1f} ({low:.1f} to {high:.1f})"


def timings():
    torch.manual_seed(0)
    prediction = torch.rand(8, 1, 128, 128).requires_grad_()
    labels = torch.zeros(8, 1, 128, 128, dtype=torch.int64)  # kornia counts classes; with one class the mask is labels == 0
    mask = (labels == 0).float()
    rows = {f"pellucid {name}": (lambda loss=loss: loss(prediction, mask)) for name, loss in LOSSES.items()}
    try:
        from kornia.losses import HausdorffERLoss

        peer = HausdorffERLoss()
        rows["kornia HausdorffERLoss"] = lambda: peer(prediction, labels)
    except ImportError:
        print("kornia is not installed: its row is missing")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), 8x1x128x128 float32, milliseconds: median (quartiles)")
    for name, call in rows.items():
        print(f"{name:24s} forward {milliseconds(call)}   forward + backward {milliseconds(lambda call=call: call().backward())}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="FOLDER", help="draw the curves instead of timing")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plot(arguments.plot) if arguments.plot else timings()
