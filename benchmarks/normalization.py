"""How fast normalisation with a gradient policy is, against the torch kernels that compute the same result.

Owns: the timing table of docs/normalization.md.
Must not: time anything whose result it has not compared first.
Read next: ``src/pellucid/nn/standardize.py``.

Run: python benchmarks/normalization.py --check 1.2
"""

import argparse
import json
import platform
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from pellucid.nn import BatchNorm2d, PatchNorm, standardize

IMAGES, PATCHES = (32, 64, 56, 56), (1024, 1, 32, 32)


def batch_norm(x):
    return F.batch_norm(x, None, None, training=True)


def layer_norm(x):
    return F.layer_norm(x, x.shape[1:])


def cases():
    """Name: (ours, torch's, input, whether torch's computes the same gradient)."""
    nchw = torch.randn(IMAGES)
    last = nchw.to(memory_format=torch.channels_last)
    patches = torch.randn(PATCHES)
    for layout, x in (("nchw", nchw), ("channels_last", last)):
        yield f"standardize full {layout}", lambda x: standardize(x, (0, 2, 3)), batch_norm, x
        yield f"standardize detached {layout}", lambda x: standardize(x, (0, 2, 3), statistics="detached"), batch_norm, x
        yield f"BatchNorm2d full {layout}", BatchNorm2d(64), torch.nn.BatchNorm2d(64), x
        yield f"BatchNorm2d detached {layout}", BatchNorm2d(64, statistics_grad="detached"), torch.nn.BatchNorm2d(64), x
        yield f"BatchNorm2d eval {layout}", BatchNorm2d(64).eval(), torch.nn.BatchNorm2d(64).eval(), x
    yield "standardize full patches", lambda x: standardize(x, (1, 2, 3)), layer_norm, patches
    yield "standardize detached patches", lambda x: standardize(x, (1, 2, 3), statistics="detached"), layer_norm, patches
    yield "PatchNorm full", PatchNorm(statistics="full"), layer_norm, patches
    yield "PatchNorm detached", PatchNorm(), layer_norm, patches


def once(f, x, g, backward):
    # One thread on a CPU: its own time, which neighbours on the machine do not lengthen. A GPU runs behind the clock's back.
    clock = time.perf_counter if x.is_cuda else time.process_time
    start = clock()
    out = f(x)
    if backward:
        torch.autograd.grad(out, x, g)
    if x.is_cuda:
        torch.cuda.synchronize()
    return 1e3 * (clock() - start)


def compare(ours, theirs, x, repeats, backward):
    """Medians and interquartile ranges in ms, the two taking turns so that both meet the same machine."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_(backward)
    g = torch.randn_like(x)
    for _ in range(5):
        once(ours, x, g, backward), once(theirs, x, g, backward)
    pairs = [(once(ours, x, g, backward), once(theirs, x, g, backward)) for _ in range(repeats)]
    quartiles = [statistics.quantiles(times, n=4) for times in zip(*pairs, strict=True)]
    return [(q[1], q[2] - q[0]) for q in quartiles]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--check", type=float, help="exit with status 1 if any ratio is above this")
    parser.add_argument("--json", help="write the figures and the machine here")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, {platform.machine()}; median (interquartile range) in ms\n")
    print("| what | ours, forward | torch's | ratio | ours, forward + backward | torch's | ratio |\n|---|---|---|---|---|---|---|")
    figures = {}
    for name, ours, theirs, x in cases():
        ours, theirs = (f.to(arguments.device) if isinstance(f, torch.nn.Module) else f for f in (ours, theirs))
        x = x.to(arguments.device)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-3)
        cells, ratios = [], []
        for backward in (False, True):
            (a, da), (b, db) = compare(ours, theirs, x, arguments.repeats, backward)
            cells += [f"{a:.2f} ({da:.2f})", f"{b:.2f} ({db:.2f})", f"{a / b:.2f}"]
            ratios.append(a / b)
        figures[name] = ratios
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    if arguments.json:
        machine = {"torch": torch.__version__, "machine": platform.machine(), "python": platform.python_version(), "threads": 1}
        with open(arguments.json, "w") as file:  # noqa: PTH123
            json.dump({"machine": machine, "ratio (forward, forward + backward)": figures}, file, indent=1)
    slow = {n: r for n, r in figures.items() if arguments.check and max(r) > arguments.check}
    if slow:
        sys.exit(f"above {arguments.check}: {slow}")


if __name__ == "__main__":
    main()
