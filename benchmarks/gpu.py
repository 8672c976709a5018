"""Check and time Pellucid on a CUDA device, in one call that always ends with a report.

    python benchmarks/gpu.py                                # the kernels' tests, the checks, then the tables
    python benchmarks/gpu.py --deadline 540                 # skips what has not begun by then, in seconds, and says so
    python benchmarks/gpu.py --docs docs/performance.md     # also writes the table there
    python benchmarks/gpu.py --batch 256 --size 224 --json gpu.json
    python benchmarks/gpu.py --only nan_shows,sweep         # these parts alone
    python benchmarks/gpu.py --dry-run --only nan_shows     # on the CPU, by Triton's interpreter: whether the script itself works

Every check and every group of timings is a process of its own: what hangs is ended, what crashes takes nothing with it, and a
failure is run once more with blocking launches, whose last lines are kept. Tests and checks run side by side, timings one after
the other. What is known stands in the JSON file after every row, also that of a process that is then ended.

Without CUDA it says so and ends with 0. It ends with 1 if a check fails; a failed check is in the table, and what it concerns is
timed all the same. Times are medians of CUDA-synchronised calls; "device" is a call's share of a CUDA graph of 20, "host" what it
takes to enqueue one. A row's share of the copy limit is the rate at which it moves the bytes it must read and write, against that
of ``clone()`` of the batch. What we set out to reach is judged from the rows.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest import mock

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what torch asks for where deterministic algorithms are demanded

import torch
from torch.utils.data import DataLoader

import pellucid
from pellucid.data import Indexed, Order, Prefetcher, collate
from pellucid.kernels import dispatch, first_launch, resize
from pellucid.kernels import warp as kernels
from pellucid.kernels.blend import gaussian_field, noise
from pellucid.kernels.color import jitter_steps
from pellucid.kernels.convolve import separable
from pellucid.kernels.warp import Link, pack
from pellucid.kernels.warp.operators import arguments
from pellucid.random.key import Key
from pellucid.segments.chain import AffineStage, ClipStage, HueStage
from pellucid_bench.measure import interleave
from pellucid_bench.peers import ours, plain_torch
from pellucid_bench.report import describe, insert, report
from pellucid_bench.settings import MEAN, STD, photographs
from pellucid_bench.subject import channels_last_8bit

DEVICE = "cuda"
REPEATS = 100


def synchronize():
    """Wait for the device, where there is one."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def warp_kernel(image, maps, *, impl="auto", **given):
    """The warp kernel as a function of what ``pack`` takes."""
    return kernels.warp(image, pack(maps, **given), impl=impl)


def random_maps(count, size, bend):
    """Maps that turn, scale and shear about the centre, affine where ``bend`` is 0."""
    generator = torch.Generator().manual_seed(5)
    linear = torch.eye(2) + torch.randn(count, 2, 2, generator=generator) * 0.3
    centre = torch.full((2,), (size - 1) / 2)
    maps = torch.eye(3).repeat(count, 1, 1)
    maps[:, :2, :2] = linear
    maps[:, :2, 2] = centre - linear @ centre + torch.randn(count, 2, generator=generator) * size / 10
    maps[:, 2, :2] = torch.randn(count, 2, generator=generator) * bend / size
    return maps if bend else maps[:, :2]


def triton_computes(impl):
    """Triton's kernels are what is checked and timed: nothing falls back to the reference without a word."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chosen = dispatch.choose(impl, available=kernels.AVAILABLE, device=DEVICE)
    return chosen == "triton", f"{chosen} computes" + "".join(f"; {warning.message}" for warning in said)


def forward_close(impl):
    """Values are as close to the reference in float64 as the float32 reference itself, over interpolations and paddings."""
    images, worst = photographs(4, 96), 0.0
    for bend in (0.0, 0.1):
        maps = random_maps(4, 96, bend)
        for interpolation in ("bilinear", "nearest", "bicubic"):
            for padding_mode in ("zeros", "border", "reflection", "reflect_101", "wrap"):
                options = {"size": (96, 90), "interpolation": interpolation, "padding_mode": padding_mode}
                truth = warp_kernel(images.double(), maps.double(), **options, impl="reference")
                allowed = (warp_kernel(images, maps, **options, impl="reference") - truth).abs()
                error = (warp_kernel(images.to(DEVICE), maps.to(DEVICE), **options, impl=impl).cpu() - truth).abs()
                if interpolation == "nearest":  # the same pixel, also where single precision takes another than double
                    error = (error - allowed).abs()
                worst = max(worst, float(error.max() / (2 * allowed.max() + 2e-6)))
    return worst <= 1, f"{worst:.2f} of the budget"


def draws_equal(impl):
    """The same key draws the same parameters on both devices, bit for bit."""
    pipeline, images = ours.flagship_pipeline(impl=impl), photographs(16, 32)
    key = Key(seed=7, step=3)
    here, there = pipeline.draw(images, key=key), pipeline.to(DEVICE).draw(images.to(DEVICE), key=key)
    pairs = [(a[name], b[name].cpu()) for a, b in zip(here.params, there.params, strict=True) for name in a]
    # Bits of the hash are exact; a range's scale and shift are one multiply-add in float64.
    worst = max(float((a - b).abs().max()) for a, b in pairs)
    return worst <= 1e-12, f"largest difference {worst:.1e}"


def noise_equal(impl):
    """Noise has the same bits as on the CPU, and a filter the reference's there to float32's precision."""
    words = torch.randint(1 << 32, (4, 2), generator=torch.Generator().manual_seed(3))
    here = gaussian_field(words, (3, 50, 61), torch.float32, impl="reference")
    there = gaussian_field(words.to(DEVICE), (3, 50, 61), torch.float32, impl=impl).cpu()
    images, kernel = photographs(4, 50), torch.rand(4, 9, generator=torch.Generator().manual_seed(4))
    expected = separable(images, kernel, kernel, impl="reference")
    error = (separable(images.to(DEVICE), kernel.to(DEVICE), kernel.to(DEVICE), impl=impl).cpu() - expected).abs().max()
    different = int((here != there).sum())
    return different == 0 and float(error) <= 1e-6 * float(expected.max()), f"{different} numbers differ; filter off by {error:.1e}"


def gradients_close(impl):
    """Gradients to image and matrix are as close to float64 as the float32 reference's, over interpolations and paddings."""
    images, worst = photographs(4, 64), 0.0
    upstream = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))

    def gradients(device, dtype, name, maps, options):
        leaf = images.to(device, dtype, copy=True).requires_grad_()
        matrix = maps.to(device, dtype, copy=True).requires_grad_()
        result = warp_kernel(leaf, matrix, size=(64, 64), impl=name, **options)
        grads = torch.autograd.grad(result, (leaf, matrix), upstream.to(device, dtype))
        return [g.cpu().double().flatten(1) for g in grads]

    for bend in (0.0, 0.1):
        maps = random_maps(4, 64, bend)
        for interpolation in ("bilinear", "bicubic"):
            for padding_mode in ("zeros", "border", "reflection", "wrap"):
                options = {"interpolation": interpolation, "padding_mode": padding_mode}
                truth = gradients("cpu", torch.float64, "reference", maps, options)
                single = gradients("cpu", torch.float32, "reference", maps, options)
                grads = gradients(DEVICE, torch.float32, impl, maps, options)
                for t, s, f in zip(truth, single, grads, strict=True):
                    allowed = 3 * (s - t).norm(dim=1) + 1e-5 * t.norm(dim=1)
                    worst = max(worst, float(((f - t).norm(dim=1) / allowed).max()))
    return worst <= 1, f"{worst:.2f} of the budget"


def results_of(call, leaves, device, dtype, upstream):
    """[the result and every leaf's gradient] of ``call(*leaves)``, in double precision on the CPU; rows are samples."""
    moved = [t.to(device, dtype, copy=True).requires_grad_() for t in leaves]
    result = call(*moved)
    grads = torch.autograd.grad(result, moved, upstream.to(device, dtype))
    return [g.detach().cpu().double().reshape(len(g), -1) for g in (result, *grads)]


def budget_share(call, leaves, upstream, impl):
    """The worst error against double precision, in units of three times the float32 reference's own."""
    truth = results_of(lambda *t: call("reference", *t), leaves, "cpu", torch.float64, upstream)
    single = results_of(lambda *t: call("reference", *t), leaves, "cpu", torch.float32, upstream)
    found = results_of(lambda *t: call(impl, *t), leaves, DEVICE, torch.float32, upstream)
    worst = 0.0
    for t, s, f in zip(truth, single, found, strict=True):
        allowed = 3 * (s - t).norm(dim=1) + 1e-5 * t.norm(dim=1) + 1e-12
        worst = max(worst, float(((f - t).norm(dim=1) / allowed).nan_to_num(torch.inf).max()))
    return worst


def colors_close(impl):
    """The flagship's pass (affine, mix, hue, second mix, clip, last mix), its gradients to image, matrix and every colour."""
    generator = torch.Generator().manual_seed(8)
    image, upstream = 0.2 + 0.6 * photographs(3, 48), torch.randn((3, 3, 40, 44), generator=generator)
    mixes = [torch.eye(3) + 0.1 * torch.randn(3, 3, 3, generator=generator) for _ in range(3)]
    shifts = [0.05 * torch.randn(3, 3, generator=generator) for _ in range(3)]
    turns, worst = torch.tensor([0.02, -0.1, 0.3]), 0.0
    for bend in (0.0, 0.1):
        maps = random_maps(3, 48, bend)

        def call(impl, image, maps, turns, *colors):
            stages = [HueStage(turns), AffineStage(colors[1], colors[4]), ClipStage(), AffineStage(colors[2], colors[5])]
            options = {"size": (40, 44), "matrix": colors[0], "offset": colors[3], "epilogue": stages}
            return warp_kernel(image, maps, impl=impl, **options)

        worst = max(worst, budget_share(call, [image, maps, turns, *mixes, *shifts], upstream, impl))
    return worst <= 1, f"{worst:.2f} of the budget"


def windows_and_channels_close(impl):
    """Windows, and images of 1, 2, 4 and 7 channels, filled and with borders, values and gradients."""
    generator, worst = torch.Generator().manual_seed(9), 0.0
    for channels in (1, 2, 4, 7):
        image, maps = torch.rand(2, channels, 33, 40, generator=generator), random_maps(2, 40, 0.0)
        window = torch.tensor([[3.0, 2.0, 30.0, 28.0], [-4.0, 5.0, 36.0, 40.0]])
        upstream = torch.randn((2, channels, 30, 34), generator=generator)
        for padding_mode in ("zeros", "border", "reflection"):

            def call(impl, image, maps, window, padding_mode=padding_mode):
                return warp_kernel(image, maps, size=(30, 34), window=window, padding_mode=padding_mode, impl=impl)

            worst = max(worst, budget_share(call, [image, maps, window], upstream, impl))
    return worst <= 1, f"{worst:.2f} of the budget"


def resize_kernel(image, maps, *, impl="auto", **given):
    """The resize kernel likewise."""
    return resize.resize(image, pack(maps, **given), impl=impl)


def cropping(count, size, out):
    """(maps, windows) of crops of half to all of a picture, enlarged or shrunk to ``out`` pixels."""
    generator = torch.Generator().manual_seed(12)
    length = size * (0.5 + 0.5 * torch.rand(count, 2, generator=generator))
    start = (size - length) * torch.rand(count, 2, generator=generator)
    maps, scale = torch.zeros(count, 2, 3), length / out
    maps[:, 0, 0], maps[:, 1, 1] = scale.unbind(1)
    maps[:, :, 2] = start + (scale - 1) / 2
    return maps, torch.cat((start, start + length - 1), 1)


def resizes_close(impl):
    """Crops and resizes with the flagship's colours: values, gradients to image, map, window and every colour."""
    generator, worst = torch.Generator().manual_seed(13), 0.0
    image, mix = 0.2 + 0.6 * photographs(2, 24), torch.eye(3) + 0.1 * torch.randn(2, 3, 3, generator=generator)
    shift, turns = 0.05 * torch.randn(2, 3, generator=generator), torch.tensor([0.02, -0.1])
    for out, options in (
        (17, {}),
        (50, {}),
        (17, {"interpolation": "bicubic", "padding_mode": "border"}),
        (17, {"antialias": False}),
    ):
        maps, windows = cropping(2, 24, out)
        upstream = torch.randn((2, 3, out, out), generator=generator)

        def call(impl, image, maps, window, turns, matrix, offset, out=out, options=options):
            colors = {"matrix": matrix, "offset": offset, "epilogue": [HueStage(turns), ClipStage()]}
            return resize_kernel(image, maps, size=(out, out), window=window, impl=impl, **colors, **options)

        worst = max(worst, budget_share(call, [image, maps, windows, turns, mix, shift], upstream, impl))
    return worst <= 1, f"{worst:.2f} of the budget"


def labels_equal(impl):
    """Labels and masks of every integer type are copies of the same pixels, with the fill where there is none."""
    generator, different = torch.Generator().manual_seed(10), 0
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
        labels = torch.randint(0, 200, (2, 2, 50, 61), generator=generator).to(dtype)
        for bend in (0.0, 0.1):
            maps, fill = random_maps(2, 50, bend), torch.full((1, 2), 7, dtype=dtype)
            for padding_mode in ("constant", "border", "wrap"):
                options = {"size": (44, 40), "interpolation": "nearest", "padding_mode": padding_mode}
                options |= {"fill": fill} if padding_mode == "constant" else {}
                here = warp_kernel(labels, maps, impl="reference", **options)
                options |= {"fill": fill.to(DEVICE)} if padding_mode == "constant" else {}
                there = warp_kernel(labels.to(DEVICE), maps.to(DEVICE), impl=impl, **options).cpu()
                different += int((here != there).sum())
    return different == 0, f"{different} pixels differ"


def labels_beyond_32_bits(impl):
    """The last pixels of a batch of labels with more than 2^31 of them are copied like the first."""
    count, size = (3, 2**15) if DEVICE == "cuda" else (2, 8)
    if DEVICE == "cuda" and torch.cuda.mem_get_info()[0] < 3 * count * size * size:
        return True, "skipped: the device has too little memory"
    labels = torch.zeros((count, 1, size, size), dtype=torch.uint8, device=DEVICE)
    labels[-1, 0, -8:] = torch.arange(8 * size, device=DEVICE).view(8, size).to(torch.uint8)
    mirror = torch.tensor([[[-1.0, 0.0, size - 1.0], [0.0, 1.0, 0.0]]], device=DEVICE)
    found = warp_kernel(labels, mirror, size=(size, size), interpolation="nearest", impl=impl)
    same = torch.equal(found[-1, 0, -8:], labels[-1, 0, -8:].flip(-1)) and not found[0, 0, :8].any()
    return same, f"{labels.numel():,} labels"


def colour_kernels_close(impl):
    """Step-by-step jitter, noise and blur: values and gradients to image and parameters."""
    generator = torch.Generator().manual_seed(11)
    image, upstream = 0.1 + 0.8 * photographs(4, 40), torch.randn((4, 3, 40, 40), generator=generator)
    order = torch.stack([torch.randperm(4, generator=generator) for _ in range(4)])
    factors = 1 + 0.4 * (torch.rand(4, 4, generator=generator) - 0.5)
    words = torch.randint(1 << 32, (4, 2), generator=generator)
    taps = torch.rand(4, 7, generator=generator) / 4

    def jittered(impl, image, factors):
        names = ("brightness", "contrast", "saturation")
        steps = {name: factors[:, i] for i, name in enumerate(names)} | {"hue": factors[:, 3] - 1}
        return jitter_steps(image, order.to(image.device), steps, impl=impl)

    def noisy(impl, image, level, spread):
        return noise(image, words.to(image.device), level, spread, clip=True, impl=impl)

    def blurred(impl, image, along, across):
        return separable(image, along, across, impl=impl)

    shares = {
        "jitter": budget_share(jittered, [image, factors], upstream, impl),
        "noise": budget_share(noisy, [image, torch.full((4,), 0.02), torch.full((4,), 0.1)], upstream, impl),
        "blur": budget_share(blurred, [image, taps, taps.flip(1)], upstream, impl),
    }
    return max(shares.values()) <= 1, ", ".join(f"{name} {share:.2f} of the budget" for name, share in shares.items())


def nan_shows(impl):
    """A pixel that is not a number shows wherever it is read, also through a hue, as in the reference."""
    images = photographs(2, 24)
    images[:, 1, 5:7, 8] = torch.nan
    maps = random_maps(2, 24, 0.0)
    options = {"size": (24, 24), "padding_mode": "border"}
    here, there = (
        warp_kernel(
            images.to(device), maps.to(device), epilogue=[HueStage(torch.full((2,), 0.1, device=device))], impl=name, **options
        )
        for device, name in (("cpu", "reference"), (DEVICE, impl))
    )
    same = torch.equal(here.isnan(), there.cpu().isnan())
    return same, f"{int(here.isnan().sum())} of them" if same else "in other places than in the reference"


def wavy(count, size, strength):
    """Smooth displacements of every output pixel, in pixels, with a few points that are nowhere."""
    generator = torch.Generator().manual_seed(6)
    coarse = torch.randn(count, 2, 5, 5, generator=generator) * strength
    field = torch.nn.functional.interpolate(coarse, size, mode="bicubic", align_corners=True)
    field[:, 0, ::17, ::23] = torch.nan
    return field


def fields_close(impl):
    """A displacement field's values and gradients (to image, matrix and field) are as close to float64 as the reference's."""
    images, worst = photographs(2, 48), 0.0
    field, maps = wavy(2, (40, 44), 6.0), random_maps(2, 48, 0.1)
    upstream = torch.randn((2, 3, 40, 44), generator=torch.Generator().manual_seed(0))

    def results(device, dtype, name, options):
        leaves = [t.to(device, dtype, copy=True).requires_grad_() for t in (images, maps, field)]
        result = warp_kernel(leaves[0], leaves[1], size=(40, 44), field=leaves[2], impl=name, **options)
        grads = torch.autograd.grad(result, leaves, upstream.to(device, dtype))
        return [g.detach().cpu().double().flatten(1) for g in (result, *grads)]

    for interpolation, padding_mode in (("bilinear", "zeros"), ("bicubic", "zeros"), ("bilinear", "border"), ("bicubic", "wrap")):
        options = {"interpolation": interpolation, "padding_mode": padding_mode}
        truth = results("cpu", torch.float64, "reference", options)
        single = results("cpu", torch.float32, "reference", options)
        grads = results(DEVICE, torch.float32, impl, options)
        for t, s, f in zip(truth, single, grads, strict=True):
            allowed = 3 * (s - t).norm(dim=1) + 1e-5 * t.norm(dim=1)
            worst = max(worst, float(((f - t).norm(dim=1) / allowed).max()))
    return worst <= 1, f"{worst:.2f} of the budget"


def chains_close(impl):
    """Canvases and a cubic spline in one pass: values and gradients to image, maps, fills and knots, the same bits twice."""
    generator, worst = torch.Generator().manual_seed(10), 0.0
    image, upstream = photographs(2, 32), torch.randn((2, 3, 20, 24), generator=generator)
    maps, at = random_maps(2, 32, 0.1), random_maps(2, 24, 0.1)
    knots, fill = (torch.rand(2, 2, 7, 6, generator=generator) - 0.5) * 4.0, torch.rand(2, 3, generator=generator)

    def chain(first, impl, image, maps, at, knots, fill):
        field = Link("bend", at, at.new_tensor([[0.5, -1.0, 7.0, 5.0]]), control=knots)
        canvas = Link("zeros", at, at.new_tensor([[0.0, 0.0, 23.0, 19.0]]), fill)
        return warp_kernel(image, maps, size=(20, 24), links=[field, canvas] if first else [canvas, field], impl=impl)

    leaves = [image, maps, at, knots, fill]
    for first in (True, False):
        worst = max(worst, budget_share(partial(chain, first), leaves, upstream, impl))
    once, again = (results_of(partial(chain, True, impl), leaves, DEVICE, torch.float32, upstream) for _ in range(2))
    return worst <= 1 and all(map(torch.equal, once, again)), f"{worst:.2f} of the budget"


def rounded_once(impl):
    """Every dtype read and written in the pass is one rounding away from float32, and float gradients come in the image's dtype."""
    images, maps = photographs(2, 40), random_maps(2, 40, 0.1)
    kinds = {torch.uint8: 1.01 / 255, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 1e-6}
    worst = 0.0
    for kind in kinds:
        image = (images * 255).round().to(torch.uint8) if kind == torch.uint8 else images.to(kind)
        wide = warp_kernel(image.float() / (255 if kind == torch.uint8 else 1), maps, size=(40, 40), impl="reference")
        for wanted, unit in kinds.items():
            leaf = image.to(DEVICE).requires_grad_(kind != torch.uint8)
            result = warp_kernel(leaf, maps.to(DEVICE), size=(40, 40), dtype=wanted, impl=impl)
            value = result.detach().cpu().float() / (255 if wanted == torch.uint8 else 1)
            worst = max(worst, float((value - wide).abs().max()) / (0.51 * unit + 2e-6))
            if result.requires_grad:
                (grads,) = torch.autograd.grad(result, leaf, torch.ones_like(result))
                if grads.dtype != kind:
                    return False, f"the gradient of a {kind} image is {grads.dtype}"
    return worst <= 1, f"{worst:.2f} of a rounding"


def same_bits(impl):
    """Forward and backward give the same bits in every run, with deterministic algorithms demanded."""
    images = photographs(32, 128).to(DEVICE)
    matrix, field = ours.src_from_dst_of(images), wavy(32, (128, 128), 4.0).to(DEVICE)
    upstream = torch.randn_like(images)
    settings = [(mode, None, torch.float32) for mode in ("zeros", "border", "reflection")]
    settings += [("zeros", field, torch.float32), ("reflection", field, torch.bfloat16)]
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for padding_mode, shifts, dtype in settings:
            first = None
            for _ in range(REPEATS):
                leaves = [images.to(dtype, copy=True).requires_grad_(), matrix.clone().requires_grad_()]
                if shifts is not None:
                    leaves.append(shifts.clone().requires_grad_())
                options = {"padding_mode": padding_mode, "field": leaves[-1] if shifts is not None else None, "dtype": dtype}
                result = warp_kernel(*leaves[:2], size=(128, 128), impl=impl, **options)
                grads = (result.detach(), *torch.autograd.grad(result, leaves, upstream.to(dtype)))
                first = first or grads
                if not all(map(torch.equal, first, grads)):
                    return False, f"results differ between runs with {padding_mode}"
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    return True, f"{REPEATS} runs of each of {len(settings)} settings"


def first_launches(impl):
    """A variant's check at its first launch agrees, and takes less than 50 ms beside the compiler (docs/cuda.md)."""
    took, compared = {}, first_launch.disagreement

    def timed(primitive, *given):
        compared(primitive, *given)  # compiles
        synchronize()
        began = time.perf_counter()
        fault = compared(primitive, *given)
        synchronize()
        took[f"{primitive.name} {len(took)}"] = time.perf_counter() - began
        return fault

    images = photographs(2, 224 if DEVICE == "cuda" else 24).to(DEVICE)
    kept = {"disagreement": timed, "FOUND": {}, "_remembered": lambda *_: None, "_remember": lambda *_: None}
    with mock.patch.multiple(first_launch, **kept), mock.patch.dict(os.environ, {"PELLUCID_CHECK": "1"}):
        for transforms in (
            [pellucid.RandomAffine(30), pellucid.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1)],
            [pellucid.RandomResizedCrop(16)],
            [pellucid.RandomGaussianBlur(5), pellucid.RandomGaussianNoise(sigma=0.1)],
        ):
            leaf = images.clone().requires_grad_()
            pellucid.Pipeline(transforms, seed=0, impl=impl)(leaf).square().sum().backward()
        faults = [f"{variant}: {found}" for variant, found in first_launch.FOUND.items() if found != "agrees"]
    slowest = max(took, key=took.get)
    detail = f"{len(took)} variants, the slowest {1000 * took[slowest]:.0f} ms ({slowest})"
    return not faults and (DEVICE == "cpu" or took[slowest] < 0.05), "; ".join([detail, *faults])


def operators_behave(impl):
    """The registered operators keep their schemas, fake kernels and batching (opcheck)."""
    del impl  # there is one set of operators per device
    images = photographs(2, 32).to(DEVICE)
    stages = [HueStage(torch.zeros(2, device=DEVICE)), ClipStage()]
    upstream = torch.randn(2, 3, 30, 20, device=DEVICE)
    for field, dtype in ((None, torch.bfloat16), (torch.zeros(2, 2, 30, 20, device=DEVICE), torch.float32)):
        maps = ours.src_from_dst_of(images)
        resample = pack(maps, size=(30, 20), padding_mode="border", field=field, dtype=dtype, epilogue=stages)
        recipe, mapping, _, params, *_ = resample
        given = images, mapping, None, params, field, None, None, *arguments(images, mapping, recipe)
        torch.library.opcheck(torch.ops.pellucid.triton_warp.default, given)
        needs = [True, True, True, True, field is not None, False, False]
        torch.library.opcheck(torch.ops.pellucid.triton_warp_backward.default, (upstream, *given, needs))
    return True, "forward and backward, without and with a field"


def captured(call):
    """(replay, the results it writes): a call recorded in a CUDA graph, after three on a side stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    return graph.replay, results


def graph_captured(impl):
    """The whole pipeline, draws included, is captured into a CUDA graph: replays give an eager call's bits, and a changed step or
    seed gives new draws."""
    pipeline, images = ours.flagship_pipeline(impl=impl).to(DEVICE), photographs(32, 64).to(DEVICE)
    seed, step = (torch.zeros((), dtype=torch.int64, device=DEVICE) for _ in range(2))
    key = Key(seed=seed, step=step, index=torch.arange(32, device=DEVICE))
    replay, (result,) = captured(lambda: (pipeline(images, key=key),))
    seen = []
    for values in ((0, 0), (0, 0), (0, 1), (5, 1)):
        seed.fill_(values[0])
        step.fill_(values[1])
        replay()
        seen.append(result.clone())
        if not torch.equal(seen[-1], pipeline(images, key=key)):
            return False, f"a replay differs from the eager call at seed and step {values}"
    if not torch.equal(seen[0], seen[1]) or torch.equal(seen[1], seen[2]) or torch.equal(seen[2], seen[3]):
        return False, "replays do not follow the buffers"
    replay, (result,) = captured(lambda: (pipeline(images),))  # with the pipeline's own counter
    replay()
    before = result.clone()
    replay()
    fresh = not torch.equal(before, result) and bool(torch.isfinite(result).all())
    return fresh, "bits of the eager call; new draws with seed, step or counter" if fresh else "the counter does not advance"


def backward_captured(impl):
    """Forward and backward, with a border rule and with a field, replay from a CUDA graph with an eager call's bits."""
    images = photographs(8, 64).to(DEVICE)
    matrix, field = ours.src_from_dst_of(images), wavy(8, (64, 64), 4.0).to(DEVICE)
    leaves = [t.clone().requires_grad_() for t in (images, matrix, field)]
    upstream = torch.randn_like(images)

    def step():
        plain = warp_kernel(leaves[0], leaves[1], size=(64, 64), padding_mode="reflection", impl=impl)
        moved = warp_kernel(leaves[0], leaves[1], size=(64, 64), field=leaves[2], impl=impl)
        return torch.autograd.grad((plain, moved), leaves, (upstream, upstream))

    expected = step()
    replay, grads = captured(step)
    replay()
    same = all(map(torch.equal, expected, grads))
    return same, "two warps with their gradients" if same else "a replay's gradients differ from the eager call's"


CHECKS = (
    triton_computes,
    forward_close,
    gradients_close,
    colors_close,
    windows_and_channels_close,
    resizes_close,
    labels_equal,
    labels_beyond_32_bits,
    colour_kernels_close,
    nan_shows,
    draws_equal,
    noise_equal,
    fields_close,
    chains_close,
    rounded_once,
    same_bits,
    first_launches,
    operators_behave,
    graph_captured,
    backward_captured,
)


def run_check(name, impl):
    """The row of one check, in this process."""
    function = next(check for check in CHECKS if check.__name__ == name)
    passed, detail = function(impl)
    return {"check": function.__doc__.partition("\n")[0], "name": name, "passed": bool(passed), "detail": detail}


def backward(forward, images):
    """A call of ``forward`` and back to the images, with an upstream gradient that the first call draws."""
    leaf, upstream = images.clone().requires_grad_(), []

    def call():
        result = forward(leaf)
        if not upstream:
            upstream.append(torch.randn_like(result))
        return torch.autograd.grad(result, leaf, upstream[0])

    return call


def both(parameters, prepared, image, upstream):
    def call():
        result, leaves = parameters(prepared)
        return torch.autograd.grad(result, [image, *leaves], upstream, allow_unused=True)

    return call


def kornia_calls(images):
    try:
        from pellucid_bench.peers import kornia
    except ImportError:
        return {}
    pipeline = kornia.flagship()[0].forward.to(DEVICE)
    return {"kornia, flagship": lambda: pipeline(images), "kornia, flagship, forward + backward": backward(pipeline, images)}


def calls_for(images, impl):
    """Everything timed, by name: (call, numbers of 4 bytes it has to read and write, in units of the batch's)."""
    size = (images.shape[2], images.shape[3])
    matrix, upstream = ours.src_from_dst_of(images), torch.randn_like(images)
    flagship = ours.flagship_pipeline(impl=impl).to(DEVICE)
    to_bf16 = ours.flagship_pipeline(impl=impl, dtype=torch.bfloat16).to(DEVICE)
    compiled = torch.compile(flagship, fullgraph=True)
    image_leaf = images.clone().requires_grad_()
    matrix_leaf = matrix.clone().requires_grad_()
    eight_bit = channels_last_8bit(images)
    theta = plain_torch.normalised(matrix, size)
    grid = torch.nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
    norm = torch.diag(1 / torch.tensor(STD, device=DEVICE))[None]
    shift = (-torch.tensor(MEAN) / torch.tensor(STD)).to(DEVICE)[None]
    # Where grid_sample reads, as pixels; and no map.
    places = ((grid + 1) * torch.tensor([size[1] / 2, size[0] / 2], device=DEVICE) - 0.5).permute(0, 3, 1, 2).contiguous()
    nothing = torch.zeros(1, 2, 3, device=DEVICE)
    places_leaf, grid_leaf = places.clone().requires_grad_(), grid.clone().requires_grad_()

    def warp(image, at=matrix, **options):
        return warp_kernel(image, at, size=size, impl=impl, **options)

    def sample(image, at=grid):
        return torch.nn.functional.grid_sample(image, at, align_corners=False)

    def reflected(image):
        return warp(image, padding_mode="reflection")

    def cubic(image):
        return warp(image, interpolation="bicubic")

    def displaced(image, at=places):
        return warp(image, nothing, field=at)

    def narrow(image):
        return warp(image, dtype=torch.bfloat16)

    words = torch.arange(2 * len(images), dtype=torch.int64, device=DEVICE).reshape(-1, 2)
    level, spread = torch.zeros(len(images), device=DEVICE), torch.full((len(images),), 0.1, device=DEVICE)
    taps = torch.full((len(images), 9), 1 / 9, device=DEVICE)

    def noisy(image):
        return noise(image, words, level, spread, clip=True, impl=impl)

    order = torch.arange(4, device=DEVICE).expand(len(images), 4)
    steps = dict.fromkeys(("brightness", "contrast", "saturation"), level + 1.1) | {"hue": level + 0.05}

    def jittered(image):
        return jitter_steps(image, order, steps, impl=impl)

    def blurred(image):
        return separable(image, taps, taps, impl=impl)

    crops, windows = (part.to(DEVICE) for part in cropping(len(images), size[0], size[0] // 2))

    def cropped(image, **options):
        return resize_kernel(image, crops, size=(size[0] // 2, size[0] // 2), window=windows, impl=impl, **options)

    def interpolated(image):
        return torch.nn.functional.interpolate(image, scale_factor=0.5, mode="bilinear", antialias=True)

    half = images.to(torch.bfloat16)
    plain = torch.compile(ours.flagship_pipeline(impl="reference").to(DEVICE), fullgraph=True)
    parameters = ours.with_parameters(flagship)
    field = 2 / images.shape[1]  # a field's share of the batch's numbers
    calls = {
        "copy limit": (images.clone, 2),
        "copy limit, bfloat16": (half.clone, 1),
        "copy limit, uint8": (eight_bit.clone, 0.5),
        "pellucid warp": (lambda: warp(images), 2),
        "pellucid warp, forward + backward": (backward(warp, images), 4),
        "pellucid warp, forward + backward to image and matrix": (
            lambda: torch.autograd.grad(warp(image_leaf, matrix_leaf), (image_leaf, matrix_leaf), upstream),
            6,
        ),
        "pellucid warp, reflection": (lambda: reflected(images), 2),
        "pellucid warp, reflection, forward + backward": (backward(reflected, images), 4),
        "pellucid warp, bicubic": (lambda: cubic(images), 2),
        "pellucid warp, bicubic, forward + backward": (backward(cubic, images), 4),
        "pellucid warp, bfloat16 to float32": (lambda: warp(half), 1.5),
        "pellucid warp, bfloat16 to bfloat16": (lambda: narrow(half), 1),
        "pellucid warp, bfloat16 to bfloat16, forward + backward": (backward(narrow, half), 2),
        "pellucid warp, uint8 HWC to bfloat16, normalised": (
            lambda: warp(eight_bit, matrix=norm, offset=shift, dtype=torch.bfloat16),
            0.75,
        ),
        "pellucid warp, uint8 HWC to uint8": (lambda: warp(eight_bit, dtype=torch.uint8), 0.5),
        "torch grid_sample, grid given": (lambda: sample(images), 2 + field),
        "torch grid_sample, forward + backward": (backward(sample, images), 4 + 2 * field),
        "torch grid_sample, forward + backward to image and grid": (
            lambda: torch.autograd.grad(sample(image_leaf, grid_leaf), (image_leaf, grid_leaf), upstream),
            6 + 3 * field,
        ),
        "pellucid warp, displacement field": (lambda: displaced(images), 2 + field),
        "pellucid warp, displacement field, forward + backward": (backward(displaced, images), 4 + 2 * field),
        "pellucid warp, displacement field, forward + backward to image and field": (
            lambda: torch.autograd.grad(displaced(image_leaf, places_leaf), (image_leaf, places_leaf), upstream),
            6 + 3 * field,
        ),
        "pellucid crop and resize to half": (lambda: cropped(images), 0.81),
        "pellucid crop and resize to half, forward + backward": (backward(cropped, images), 2.06),
        "pellucid crop and resize to half, uint8 HWC to bfloat16": (lambda: cropped(eight_bit, dtype=torch.bfloat16), 0.27),
        "torch interpolate to half, antialiased": (lambda: interpolated(images), 1.25),
        "torch interpolate to half, antialiased, forward + backward": (backward(interpolated, images), 2.5),
        "pellucid noise": (lambda: noisy(images), 2),
        "pellucid noise, forward + backward": (backward(noisy, images), 5),
        "pellucid blur, 9 taps": (lambda: blurred(images), 2),
        "pellucid blur, 9 taps, forward + backward": (backward(blurred, images), 4),
        "pellucid clipped jitter": (lambda: jittered(images), 3),
        "pellucid clipped jitter, forward + backward": (backward(jittered, images), 10),
        "pellucid, flagship": (lambda: flagship(images), 2),
        "pellucid, flagship, torch.compile": (lambda: compiled(images), 2),
        "pellucid, flagship by the reference, torch.compile": (lambda: plain(images), 2),
        "pellucid, flagship, uint8 HWC to bf16": (lambda: to_bf16(eight_bit), 0.75),
        "pellucid, flagship, forward + backward": (backward(flagship, images), 4),
        "pellucid, flagship, forward + backward to image and parameters": (both(parameters, image_leaf, image_leaf, upstream), 6),
    }
    calls |= {name: (call, 2 if "backward" not in name else 4) for name, call in kornia_calls(images).items()}
    if DEVICE == "cuda":
        calls["pellucid, flagship, CUDA graph"] = (from_graph(lambda: flagship(images)), 2)
    return calls


def from_graph(call):
    """The call as a replay; captured when first called, so that a failure concerns its own row."""
    kept = []

    def replayed():
        if not kept:
            kept.extend(captured(call))
        kept[0]()

    return replayed


def peak(call, images):
    """Memory on top of the inputs at the worst moment of a call, in units of the batch's bytes."""
    if DEVICE != "cuda":
        return float("nan")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    del result
    return extra / (images.numel() * 4)


GROUPS = (
    *("pellucid warp", "pellucid, flagship", "kornia, flagship", "pellucid warp, bfloat16 to bfloat16"),
    *("pellucid warp, uint8 HWC to bfloat16, normalised", "pellucid crop and resize to half", "pellucid warp, displacement field"),
    *(
        "torch grid_sample, grid given",
        "torch grid_sample",
        "torch interpolate to half, antialiased",
        "pellucid, flagship, CUDA graph",
    ),
    *("pellucid, flagship, uint8 HWC to bf16", "pellucid clipped jitter", "pellucid noise", "pellucid blur, 9 taps"),
    *("pellucid warp, reflection", "pellucid warp, bicubic", "pellucid crop and resize to half, uint8 HWC to bfloat16"),
    *("copy limit, bfloat16", "copy limit, uint8", "pellucid warp, bfloat16 to float32", "pellucid warp, uint8 HWC to uint8"),
    *("pellucid, flagship, torch.compile", "pellucid, flagship by the reference, torch.compile"),
)
"""What is timed in a process of its own, what matters most first; see `group_of`."""

GRAPHED = 20
"""Calls in the graph that tells the device's time alone."""


def device_time(call):
    """Seconds of one call on the device: that of a CUDA graph of many, shared among them; NaN where it cannot be captured."""
    try:
        replay, _ = captured(lambda: [call() for _ in range(GRAPHED)])
        replay()
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(3):
            replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3 / 3 / GRAPHED
    except Exception:  # host work inside, or no GPU
        synchronize()
        return float("nan")


def launches(call):
    """What one call starts on the device: kernels, copies and fills; NaN where the profiler cannot tell."""
    if DEVICE != "cuda":
        return float("nan")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            torch.cuda.synchronize()
        return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events()) or float("nan")
    except Exception:  # a driver without counters
        return float("nan")


def host_time(call):
    """Seconds until a call has been handed to the device."""
    synchronize()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        synchronize()
    return sorted(times)[len(times) // 2]


def run_timings(batch, size, impl, budget, group, known):
    """The rows of one group, each beside the copy limit; ``known`` is called with all of them after each.

    Times on the device come last: a capture that fails, as of a library that reads values, may spoil what follows in its process.
    """
    images = photographs(batch, size).to(DEVICE)
    working, rows = {}, []
    calls = {name: call for name, call in calls_for(images, impl).items() if name == "copy limit" or group_of(name) == group}
    if len(calls) == 1:
        rows.append({"subject": group, "status": "absent", "note": "not installed here"})
    for name, (call, _) in calls.items():
        try:
            start = time.perf_counter()
            call()
            synchronize()
            working[name] = call, time.perf_counter() - start
        except Exception as error:  # whatever it is, it concerns this row alone
            rows.append({"subject": name, "status": "raises", "note": f"{type(error).__name__}: {error}".partition("\n")[0][:120]})
    known(rows)
    timed = []
    for name, (call, first) in working.items():
        pair = interleave({"copy limit": working["copy limit"][0], name: call}, budget=budget, rounds=100, warmup=5)
        timing, copy = pair[name], pair["copy limit"].median
        row = {
            "subject": name,
            "status": "ok",
            "median_us": timing.median * 1e6,
            "q1_us": timing.low * 1e6,
            "q3_us": timing.high * 1e6,
            "rounds": timing.rounds,
            "first_s": first,
            "device_us": float("nan"),
            "host_us": host_time(call) * 1e6,
            "launches": launches(call),
            "images_per_s": batch / timing.median,
            "copy_fraction": calls[name][1] / 2 * copy / timing.median,
            "peak_per_image_bytes": peak(call, images),
        }
        rows.append(row)
        timed.append((row, call))
        known(rows)
    for row, call in timed:
        if "CUDA graph" not in row["subject"]:  # which cannot be captured again
            row["device_us"] = device_time(call) * 1e6
            known(rows)
    return rows


def group_of(name):
    """The process in which a row is timed: one for each thing that is called."""
    return (
        name.removesuffix(" to image and matrix")
        .removesuffix(" to image and field")
        .removesuffix(" to image and grid")
        .removesuffix(" to image and parameters")
        .removesuffix(", forward + backward")
    )


CONCERNS = {
    "fields_close": ("displacement field",),
    "colors_close": ("flagship",),
    "resizes_close": ("crop and resize",),
    "colour_kernels_close": ("noise", "blur", "jitter"),
    "noise_equal": ("noise",),
    "rounded_once": ("bfloat16", "bf16", "uint8"),
    "graph_captured": ("CUDA graph",),
    **dict.fromkeys(("labels_equal", "labels_beyond_32_bits", "draws_equal", "operators_behave", "backward_captured", "tests"), ()),
}
"""Which rows a failed check marks, by a part of their names; one that is not here marks all of ours."""


def compiled_kernels(batch, size, impl, known):
    """Registers, spills, shared memory and seconds of compiling of the kernels that the main calls need, compiled anew."""
    import triton

    seconds, notes = {}, []

    def compiled(metadata, times, **_):
        seconds[metadata["hash"]] = times.total / 1e6

    triton.knobs.compilation.always_compile = True
    triton.knobs.compilation.listener = compiled
    images = photographs(batch, size).to(DEVICE).requires_grad_()
    flagship = ours.flagship_pipeline(impl=impl).to(DEVICE)
    warp_kernel(images, ours.src_from_dst_of(images), size=(size, size), impl=impl).sum().backward()
    flagship(images).sum().backward()
    maps, windows = (part.to(DEVICE) for part in cropping(batch, size, size // 2))
    resize_kernel(images, maps, size=(size // 2, size // 2), window=windows, impl=impl).sum().backward()
    synchronize()
    for kernel in loaded_kernels():
        facts = f"{kernel.n_regs} registers, {kernel.n_spills} spilled, {kernel.metadata.shared} B shared"
        notes.append({"subject": f"kernel {kernel.name}", "note": f"{facts}, {seconds.get(kernel.hash, 0):.1f} s to compile"})
        known(notes)
    return notes


def loaded_kernels():
    """What Triton has compiled and loaded for the warp in this process."""
    from pellucid.kernels.warp.triton import launch

    for name in ("forward", "gradients", "gather", "add_folded", "add_weighted", "add_tabled", "bounds", "spread", "collect"):
        caches = getattr(getattr(launch, name), "device_caches", {})
        for cache in caches.values():
            yield from cache[0].values()


def sweep(batch, size, impl, known):
    """Device time of the warp and its backward over widths of blocks, warps and pixels per thread: what to set in ``launch.py``."""
    from pellucid.kernels.warp.triton import launch

    images = photographs(batch, size).to(DEVICE)
    forward = lambda image: warp_kernel(image, ours.src_from_dst_of(images), size=(size, size), impl=impl)  # noqa: E731
    calls = {"forward": lambda: forward(images), "forward + backward": backward(forward, images)}
    usual, notes = {name: getattr(launch, name) for name in ("_THREADS", "_ALONE", "_EACH", "_STEPS", "_WARP_ROWS")}, []
    settings = [{}, *({"_THREADS": n * usual["_ALONE"]} for n in (2, 8)), *({"_ALONE": n * usual["_ALONE"]} for n in (2, 4))]
    settings += [*({"_EACH": n} for n in (1, 4)), *({"_WARP_ROWS": n} for n in (1, 4)), *({"_STEPS": n} for n in (8, 32))]
    for setting in settings:
        vars(launch).update(usual | setting)
        for name, call in calls.items():
            try:
                call()
                found = f"{device_time(call) * 1e6:.0f} us"
            except Exception as error:
                found = f"{type(error).__name__}: {error}".partition("\n")[0][:120]
            notes.append({"subject": f"{name} with {setting or 'what is set'}", "note": found})
            known(notes)
    vars(launch).update(usual)
    return notes


def loader(batch, size, impl, known):
    """How far reading, moving and augmenting a batch hide behind a training step of about the same length."""
    pictures = [torch.randint(0, 256, (3, size + i % 7, size), dtype=torch.uint8) for i in range(8 * batch)]
    augment = collate(pellucid.Pipeline([pellucid.CenterCrop(size), pellucid.RandomAffine(15)], impl=impl))
    weights = torch.randn(3 * size, 3 * size, device=DEVICE) / size
    batches = 8

    def step(times):
        x = weights
        for _ in range(times):
            x = x @ weights
        return x

    def seconds(work):
        synchronize()
        start = time.perf_counter()
        work()
        synchronize()
        return time.perf_counter() - start

    def reading(times):
        read = DataLoader(Indexed(pictures), batch, sampler=Order(pictures), collate_fn=augment.read)
        for _ in Prefetcher(read, augment, device=DEVICE):
            step(times)

    seconds(lambda: reading(1))
    alone, once = seconds(lambda: reading(0)), seconds(lambda: step(20)) / 20
    times = max(1, round(alone / batches / once))
    work = seconds(lambda: [step(times) for _ in range(batches)])
    together = seconds(lambda: reading(times))
    hidden = (alone + work - together) / min(alone, work)
    del known
    note = f"{alone / batches * 1e3:.1f} ms alone, steps {work / batches * 1e3:.1f} ms, together {together / batches * 1e3:.1f} ms"
    return [{"subject": "DataLoader and Prefetcher", "note": f"{note}: {hidden:.0%} hidden"}]


STUDIES = {"kernels": compiled_kernels, "sweep": sweep, "loader": loader}

TARGETS = (
    ("the warp moves at least half of the copy limit", "pellucid warp", "copy limit", 0.5),
    ("bfloat16 to bfloat16 moves at least half of the copy limit", "pellucid warp, bfloat16 to bfloat16", "copy limit", 0.5),
    (
        "uint8 to normalised bfloat16 moves at least half of the copy limit",
        "pellucid warp, uint8 HWC to bfloat16, normalised",
        "copy limit",
        0.5,
    ),
    ("forward + backward of the warp costs at most 3 forwards", "pellucid warp, forward + backward", "pellucid warp", 3.0),
    (
        "with a matrix's gradient too",
        "pellucid warp, forward + backward to image and matrix",
        "pellucid warp",
        3.0,
    ),
    (
        "forward + backward of a field's warp costs at most 3 forwards",
        "pellucid warp, displacement field, forward + backward",
        "pellucid warp, displacement field",
        3.0,
    ),
    (
        "forward + backward of the flagship costs at most 3 forwards",
        "pellucid, flagship, forward + backward",
        "pellucid, flagship",
        3.0,
    ),
    ("a field's warp is as fast as grid_sample", "pellucid warp, displacement field", "torch grid_sample, grid given", 1.0),
    (
        "its backward to the image too, which grid_sample does with float atomics",
        "pellucid warp, displacement field, forward + backward",
        "torch grid_sample, forward + backward",
        1.0,
    ),
    ("the flagship is 20 times as fast as kornia", "pellucid, flagship", "kornia, flagship", 1 / 20),
    ("from a CUDA graph too", "pellucid, flagship, CUDA graph", "kornia, flagship", 1 / 20),
    (
        "forward + backward is 20 times as fast as kornia",
        "pellucid, flagship, forward + backward",
        "kornia, flagship, forward + backward",
        1 / 20,
    ),
)
"""(what, the row it is about, the row it is held against, the most time in units of the latter's); against the copy limit the least
share of it."""


def judge(rows):
    """What we set out to reach, by the rows: (target, measured, met or None where a row is missing)."""
    timed = {row["subject"]: row for row in rows if row["status"] == "ok"}
    verdicts = []
    for what, name, against, bound in TARGETS:
        if name not in timed or against not in timed:
            verdicts.append({"target": what, "measured": "not measured", "met": None})
        elif against == "copy limit":
            share = timed[name]["copy_fraction"]
            verdicts.append({"target": what, "measured": f"{share:.0%} of it", "met": share >= bound})
        else:
            ratio = timed[name]["median_us"] / timed[against]["median_us"]
            shown = f"{1 / ratio:.1f} times as fast" if bound <= 1 else f"{ratio:.2f} times"
            verdicts.append({"target": what, "measured": shown, "met": ratio <= bound})
    return verdicts


def verdict_table(verdicts):
    words = {True: "reached", False: "**missed**", None: "unknown"}
    lines = ["| target | measured | |", "|---|---|---|"]
    return "\n".join(lines + [f"| {v['target']} | {v['measured']} | {words[v['met']]} |" for v in verdicts])


def table(checks, rows, batch, size):
    lines = [f"{batch}x3x{size}x{size} float32. Normalisation {MEAN}, {STD}.", "", "| check | | |", "|---|---|---|"]
    lines += [f"| {c['check']} | {'passed' if c['passed'] else '**failed**'} | {c['detail']} |" for c in checks]
    lines += [
        "",
        "| | median us (quartiles) | device | host | launches | first call | images/s | of copy limit | peak memory / image |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    wrong = {what for check in checks if not check["passed"] for what in CONCERNS.get(check["name"], ("pellucid",))}
    for row in rows:
        name = row["subject"] + (" (**a check failed**)" if any(what in row["subject"] for what in wrong) else "")
        if row["status"] != "ok":
            lines.append(f"| {name} | {row['status']}: {row['note']} | | | | | | | |")
            continue
        span = f"{row['median_us']:.0f} ({row['q1_us']:.0f} to {row['q3_us']:.0f})"
        span += f" | {row['device_us']:.0f} | {row['host_us']:.0f} | {row['launches']:.0f} | {row['first_s']:.1f} s"
        tail = f"{row['images_per_s']:,.0f} | {row['copy_fraction']:.0%} | {row['peak_per_image_bytes']:.1f} x"
        lines.append(f"| {name} | {span} | {tail} |")
    return "\n".join(lines)


def note_table(notes):
    return "\n".join(["| | |", "|---|---|", *(f"| {note['subject']} | {note['note']} |" for note in notes)])


RUNNING = set()
"""Processes that have begun; each leads a group of its own."""


def end_all(*_):
    """End what runs, and ourselves: a signal's answer."""
    for child in RUNNING:
        os.killpg(child.pid, signal.SIGKILL)
    os._exit(143)


def attempt(command, limit, tick=lambda: None, **environment):
    """(exit code or None where it took longer than ``limit`` seconds, the last 20 lines it printed); ``tick`` is called meanwhile.

    Its output goes to a file and its children are ended with it: one that keeps a pipe open would keep us waiting.
    """
    end = time.monotonic() + limit
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        RUNNING.add(child)
        try:
            while child.poll() is None and time.monotonic() < end:
                try:
                    child.wait(min(1.0, max(end - time.monotonic(), 0.01)))
                except subprocess.TimeoutExpired:
                    tick()
            code = child.returncode
        finally:
            RUNNING.discard(child)
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        printed.seek(0)
        return code, printed.read().decode(errors="replace").splitlines()[-20:]


class Parts:
    """Parts of the work as processes, each of which leaves its result in a JSON file; the report is written after every row."""

    def __init__(self, deadline, write):
        self.end, self.write, self.failures = time.monotonic() + deadline, write, []

    def run(self, name, command, limit, found=lambda _: None):
        """What the part left, or None: it is skipped after the deadline, and tried again with blocking launches where it fails.

        ``found`` gets what it has left so far whenever that has changed; of a part that fails that is all there is.
        """
        left = self.end - time.monotonic()
        if left <= 5:
            return self.note(name, "skipped: the deadline was reached", [])
        with tempfile.TemporaryDirectory() as folder:
            file, before = Path(folder) / "part.json", []

            def read():
                text = file.read_text() if file.exists() else ""
                if text and [text] != before:
                    before[:] = [text]
                    found(json.loads(text))

            given = [*command, "--json", str(file)] if "--part" in command else command
            code, lines = attempt(given, min(limit, left), read)
            read()
            if code == 0:
                print(f"done {name}", flush=True)
                return json.loads(before[0]) if before else lines
            happened = f"not ended after {min(limit, left):.0f} s" if code is None else f"exit {code}"
            left = self.end - time.monotonic()
            if code is not None and left > 5:
                _, lines = attempt(given, min(limit, left), CUDA_LAUNCH_BLOCKING="1")
            return self.note(name, happened, lines)

    def note(self, name, happened, lines):
        """Write a part down that has no result."""
        print(f"FAIL {name}: {happened}", flush=True)
        self.failures.append({"part": name, "happened": happened, "lines": lines})
        self.write()


def run_all(arguments):
    """(checks, rows, notes, failures), each part in its own process."""
    checks, rows, notes, writing = [], {}, {}, threading.Lock()

    def listed(parts):
        """The first copy limit, and everything else."""
        flat = [row for found in parts.values() for row in found]
        limit = next((row for row in flat if row["subject"] == "copy limit"), None)
        return [row for row in flat if row["subject"] != "copy limit" or row is limit]

    def write():
        if arguments.json is not None:
            with writing:
                data = assembled(arguments, checks, listed(rows), listed(notes), parts.failures)
                replaced(arguments.json, json.dumps(data, indent=1) + "\n")

    def kept(results, part):
        """Called with what a part has found so far."""

        def found(result):
            results[part] = result
            write()

        return found

    parts = Parts(arguments.deadline, write)
    here = [sys.executable, __file__, "--impl", arguments.impl, *(["--dry-run"] if arguments.dry_run else [])]
    here += [word for injected in arguments.inject for word in ("--inject", injected)]
    wanted = set(arguments.only.split(",")) if arguments.only else None
    tests = Path(__file__).parents[1] / "tests" / "kernels"

    def check(function):
        name = function.__name__
        if name == "tests":
            command = [sys.executable, "-m", "pytest", "-q", "--maxfail", "5", str(tests), "-k", "triton"]
            printed = parts.run("the kernels' tests", command, 240)
            row = None if printed is None else {"passed": True, "detail": printed[-1] if printed else ""}
        else:
            row = parts.run(name, [*here, "--part", name], arguments.limit)
        lost = {"check": function.__doc__.partition("\n")[0], "name": name, "passed": False, "detail": "see the failures"}
        checks.append(lost | (row or {}))
        print(f"{'ok  ' if checks[-1]['passed'] else 'FAIL'} {name}: {checks[-1]['detail']}", flush=True)
        write()

    def tests_pass():
        """The kernels' tests pass on this device."""

    tests_pass.__name__ = "tests"
    asked = [*([tests_pass] if arguments.tests else []), *CHECKS]
    with ThreadPoolExecutor(1 if arguments.dry_run else min(6, max(1, (os.cpu_count() or 1) // 2))) as pool:
        list(pool.map(check, [function for function in asked if wanted is None or function.__name__ in wanted]))
    order = [function.__name__ for function in asked]
    checks.sort(key=lambda row: order.index(row["name"]))
    sized = ["--batch", str(arguments.batch), "--size", str(arguments.size), "--budget", str(arguments.budget)]
    first, *later = [("study", study, notes) for study in STUDIES]
    work = [first, *(("rows", group, rows) for group in GROUPS), *later]
    for kind, name, results in work:
        if wanted is None or name in wanted:
            parts.run(name, [*here, *sized, "--part", f"{kind}:{name}"], arguments.limit, kept(results, name))
    write()
    return checks, listed(rows), listed(notes), parts.failures


def replaced(file, text):
    """Write a whole file, or leave the one that was there."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(text)
    draft.replace(file)


def assembled(arguments, checks, rows, notes, failures):
    """The report as data."""
    settings = {"batch": arguments.batch, "size": arguments.size, "impl": arguments.impl, "checks": checks}
    return report("gpu", {**settings, "targets": judge(rows), "notes": notes, "failures": failures}, rows)


def broken(how):
    """A kernel that raises, hangs or returns NaN: what this script must survive."""

    def kernel(image, maps, *, impl="auto", **given):
        if impl == "reference" or how not in ("raises", "hangs"):
            return real(image, maps, impl=impl, **given) * (1 if impl == "reference" else torch.nan)
        if how == "hangs":
            time.sleep(3600)
        raise RuntimeError("an injected failure")

    real = warp_kernel
    return kernel


def part(arguments):
    """The work of one child process."""
    for name, _, how in (injected.partition("=") for injected in arguments.inject):
        if name == arguments.part:
            globals()["warp_kernel"] = broken(how)
    kind, _, name = arguments.part.rpartition(":")

    def known(found):
        replaced(arguments.json, json.dumps(found))

    if kind == "study":
        known(STUDIES[name](arguments.batch, arguments.size, arguments.impl, known))
    elif kind == "rows":
        known(run_timings(arguments.batch, arguments.size, arguments.impl, arguments.budget, name, known))
    else:
        known(run_check(name, arguments.impl))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--impl", default="auto")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timing per row")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds after which nothing more is begun")
    parser.add_argument("--no-tests", dest="tests", action="store_false", help="leave the kernels' tests out")
    parser.add_argument("--json", type=Path, help="write the report here, after every row of it")
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its gpu markers")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a part is ended")
    parser.add_argument("--only", help="names of parts, with commas: tests, checks, kernels, sweep, loader, groups of timings")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU by Triton's interpreter, with small sizes")
    parser.add_argument("--inject", action="append", default=[], help=argparse.SUPPRESS)  # PART=raises, hangs or nan
    parser.add_argument("--part", help=argparse.SUPPRESS)  # what a child process does
    arguments = parser.parse_args()
    if arguments.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"
        arguments.impl = "triton" if arguments.impl == "auto" else arguments.impl
        globals()["DEVICE"], dispatch._runs_on = "cpu", lambda *_: True
    if arguments.part:
        part(arguments)
        return 0
    if not (torch.cuda.is_available() or arguments.dry_run):
        print("No CUDA device: nothing to check or time here.")
        return 0
    signal.signal(signal.SIGTERM, end_all)
    checks, rows, notes, failures = run_all(arguments)
    data = assembled(arguments, checks, rows, notes, failures)
    text = f"{describe(data['environment'])}\n\n{table(checks, rows, arguments.batch, arguments.size)}"
    text += f"\n\n{note_table(notes)}" if notes else ""
    text += f"\n\n{verdict_table(data['targets'])}" if rows else ""
    text += "".join(f"\n\n**{lost['part']}**: {lost['happened']}\n" + "\n".join(lost["lines"]) for lost in failures)
    print(text)
    if arguments.docs is not None:
        insert(arguments.docs, "gpu", text)
    return 0 if all(c["passed"] for c in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
