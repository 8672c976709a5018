"""Check and time Pellucid on a CUDA device, in one call.

    python benchmarks/gpu.py                                # checks, then the table
    python benchmarks/gpu.py --docs docs/performance.md     # also writes the table there
    python benchmarks/gpu.py --batch 256 --size 224 --json gpu.json

Without CUDA it says so and ends with 0. It ends with 1 if a check fails; a failed check is in the table, and what it
concerns is not timed. Times are medians of CUDA-synchronised calls; the copy limit is ``clone()`` of the same bytes.
"""

import argparse
import json
from pathlib import Path

import torch

from pellucid.bench.measure import interleave
from pellucid.bench.peers import ours, plain_torch
from pellucid.bench.report import describe, insert, report
from pellucid.bench.settings import MEAN, STD, photographs
from pellucid.bench.subject import channels_last_8bit
from pellucid.kernels.warp import warp as warp_kernel
from pellucid.kernels.warp.packing import pack
from pellucid.random.key import Key
from pellucid.segments.chain import ClipStage, HueStage

DEVICE = "cuda"
REPEATS = 100


def random_maps(count, size, bend):
    """Maps that turn, scale and shear about the centre, affine where ``bend`` is 0."""
    generator = torch.Generator().manual_seed(5)
    linear = torch.eye(2) + torch.randn(count, 2, 2, generator=generator) * 0.3
    centre = torch.full((2,), (size - 1) / 2)
    maps = torch.eye(3).repeat(count, 1, 1)
    maps[:, :2, :2] = linear
    maps[:, :2, 2] = centre - linear @ centre + torch.randn(count, 2, generator=generator) * size / 10
    maps[:, 2, :2] = torch.randn(count, 2, generator=generator) * bend / size
    return maps


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


def gradients_close(impl):
    """Gradients to image and matrix are as close to float64 as the float32 reference's, over interpolations and paddings."""
    images, worst = photographs(4, 64), 0.0
    upstream = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))

    def gradients(device, dtype, name, maps, options):
        leaf = images.to(device, dtype, copy=True).requires_grad_()
        matrix = maps.to(device, dtype, copy=True).requires_grad_()
        result = warp_kernel(leaf, matrix, size=(64, 64), impl=name, **options)
        found = torch.autograd.grad(result, (leaf, matrix), upstream.to(device, dtype))
        return [g.cpu().double().flatten(1) for g in found]

    for bend in (0.0, 0.1):
        maps = random_maps(4, 64, bend)
        for interpolation in ("bilinear", "bicubic"):
            for padding_mode in ("zeros", "border", "reflection", "wrap"):
                options = {"interpolation": interpolation, "padding_mode": padding_mode}
                truth = gradients("cpu", torch.float64, "reference", maps, options)
                single = gradients("cpu", torch.float32, "reference", maps, options)
                found = gradients(DEVICE, torch.float32, impl, maps, options)
                for t, s, f in zip(truth, single, found, strict=True):
                    allowed = 3 * (s - t).norm(dim=1) + 1e-5 * t.norm(dim=1)
                    worst = max(worst, float(((f - t).norm(dim=1) / allowed).max()))
    return worst <= 1, f"{worst:.2f} of the budget"


def same_bits(impl):
    """Forward and backward give the same bits in every run, with deterministic algorithms demanded."""
    images = photographs(32, 128).to(DEVICE)
    matrix = ours.src_from_dst_of(images)
    upstream = torch.randn_like(images)
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for padding_mode in ("zeros", "border", "reflection"):
            first = None
            for _ in range(REPEATS):
                leaves = images.clone().requires_grad_(), matrix.clone().requires_grad_()
                result = warp_kernel(*leaves, size=(128, 128), padding_mode=padding_mode, impl=impl)
                found = (result.detach(), *torch.autograd.grad(result, leaves, upstream))
                first = first or found
                if not all(map(torch.equal, first, found)):
                    return False, f"results differ between runs with {padding_mode}"
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    return True, f"{REPEATS} runs of each of three paddings"


def operators_behave(impl):
    """The registered operators keep their schemas, fake kernels and batching (opcheck)."""
    del impl  # there is one set of operators per device
    images = photographs(2, 32).to(DEVICE)
    packed = pack(
        3,
        ours.src_from_dst_of(images),
        size=(30, 20),
        interpolation="bilinear",
        padding_mode="border",
        fill=None,
        matrix=None,
        offset=None,
        window=None,
        epilogue=[HueStage(torch.zeros(2, device=DEVICE)), ClipStage()],
    )
    static = packed.options
    numbers = [static.taps, static.mode, static.flags, static.out_channels]
    arguments = (images, packed.mapping, None, packed.params, None, [30, 20], numbers, static.cubic)
    torch.library.opcheck(torch.ops.pellucid.triton_warp.default, (*arguments, torch.bfloat16))
    upstream = torch.randn(2, 3, 30, 20, device=DEVICE)
    torch.library.opcheck(torch.ops.pellucid.triton_warp_backward.default, (upstream, *arguments, [True, True, True, False]))
    return True, "forward and backward"


def graph_captured(impl):
    """The whole pipeline, draws included, replays from a CUDA graph and advances its draw."""
    pipeline, images = ours.flagship_pipeline(impl=impl).to(DEVICE), photographs(32, 64).to(DEVICE)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            pipeline(images)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = pipeline(images)
    graph.replay()
    before = result.clone()
    graph.replay()
    fresh = not torch.equal(before, result) and bool(torch.isfinite(result).all())
    return fresh, "two replays differ, as their steps do" if fresh else "two replays are equal"


CHECKS = (forward_close, draws_equal, gradients_close, same_bits, operators_behave, graph_captured)


def run_checks(impl):
    results = []
    for function in CHECKS:
        try:
            passed, detail = function(impl)
        except Exception as error:  # a check that cannot run has failed, and the others still run
            passed, detail = False, str(error).partition("\n")[0][:160]
        print(f"{'ok  ' if passed else 'FAIL'} {function.__name__}: {detail}")
        results.append({"check": function.__doc__, "name": function.__name__, "passed": passed, "detail": detail})
    return results


def backward(forward, images):
    leaf = images.clone().requires_grad_()
    upstream = torch.randn_like(images)
    return lambda: torch.autograd.grad(forward(leaf), leaf, upstream)


def both(parameters, prepared, image, upstream):
    def call():
        result, leaves = parameters(prepared)
        return torch.autograd.grad(result, [image, *leaves], upstream, allow_unused=True)

    return call


def kornia_calls(images):
    try:
        from pellucid.bench.peers import kornia
    except ImportError:
        return {}
    pipeline = kornia.flagship()[0].forward.to(DEVICE)
    return {"kornia, flagship": lambda: pipeline(images), "kornia, flagship, forward + backward": backward(pipeline, images)}


def calls_for(images, impl):
    """Everything timed, by name."""
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

    def warp(image, at=matrix):
        return warp_kernel(image, at, size=size, impl=impl)

    def sample(image):
        return torch.nn.functional.grid_sample(image, grid, align_corners=False)

    def reflected(image):
        return warp_kernel(image, matrix, size=size, padding_mode="reflection", impl=impl)

    def cubic(image):
        return warp_kernel(image, matrix, size=size, interpolation="bicubic", impl=impl)

    half = images.to(torch.bfloat16)
    parameters = ours.with_parameters(flagship)
    return {
        "copy limit": images.clone,
        "pellucid warp": lambda: warp(images),
        "pellucid warp, forward + backward": backward(warp, images),
        "pellucid warp, forward + backward to image and matrix": lambda: torch.autograd.grad(
            warp(image_leaf, matrix_leaf), (image_leaf, matrix_leaf), upstream
        ),
        "pellucid warp, reflection": lambda: reflected(images),
        "pellucid warp, reflection, forward + backward": backward(reflected, images),
        "pellucid warp, bicubic": lambda: cubic(images),
        "pellucid warp, bicubic, forward + backward": backward(cubic, images),
        "pellucid warp, bfloat16 in": lambda: warp(half),
        "torch grid_sample, grid given": lambda: sample(images),
        "torch grid_sample, forward + backward": backward(sample, images),
        "pellucid, flagship": lambda: flagship(images),
        "pellucid, flagship, torch.compile": lambda: compiled(images),
        "pellucid, flagship, uint8 HWC to bf16": lambda: to_bf16(eight_bit),
        "pellucid, flagship, forward + backward": backward(flagship, images),
        "pellucid, flagship, forward + backward to image and parameters": both(parameters, image_leaf, image_leaf, upstream),
        **kornia_calls(images),
    }


def peak(call, images):
    """Memory on top of the inputs at the worst moment of a call, in units of the batch's bytes."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    del result
    return extra / (images.numel() * 4)


def run_timings(batch, size, impl, budget):
    images = photographs(batch, size).to(DEVICE)
    working, rows = {}, []
    for name, call in calls_for(images, impl).items():
        try:
            call()
            torch.cuda.synchronize()
            working[name] = call
        except (RuntimeError, NotImplementedError) as error:
            rows.append({"subject": name, "status": "raises", "note": str(error).partition("\n")[0][:120]})
    timings = interleave(working, budget=budget, rounds=100, warmup=5)
    copy = timings["copy limit"].median
    for name, timing in timings.items():
        quartiles = {
            "median_us": timing.median * 1e6,
            "q1_us": timing.low * 1e6,
            "q3_us": timing.high * 1e6,
            "rounds": timing.rounds,
        }
        rates = {"images_per_s": batch / timing.median, "copy_fraction": copy / timing.median}
        rows.append({"subject": name, "status": "ok", **quartiles, **rates, "peak_per_image_bytes": peak(working[name], images)})
    return rows


def table(checks, rows, batch, size):
    lines = [f"{batch}x3x{size}x{size} float32. Normalisation {MEAN}, {STD}.", "", "| check | | |", "|---|---|---|"]
    lines += [f"| {c['check']} | {'passed' if c['passed'] else '**failed**'} | {c['detail']} |" for c in checks]
    lines += ["", "| | median us (quartiles) | images/s | of copy limit | peak memory / image |", "|---|---|---|---|---|"]
    for row in rows:
        if row["status"] != "ok":
            lines.append(f"| {row['subject']} | raises: {row['note']} | | | |")
            continue
        span = f"{row['median_us']:.0f} ({row['q1_us']:.0f} to {row['q3_us']:.0f})"
        tail = f"{row['images_per_s']:,.0f} | {row['copy_fraction']:.0%} | {row['peak_per_image_bytes']:.1f} x"
        lines.append(f"| {row['subject']} | {span} | {tail} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--impl", default="auto")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timing per row")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its gpu markers")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device: nothing to check or time here.")
        return 0
    checks = run_checks(arguments.impl)
    rows = []
    if all(c["passed"] for c in checks if c["name"] in ("forward_close", "gradients_close")):
        rows = run_timings(arguments.batch, arguments.size, arguments.impl, arguments.budget)
    else:
        print("The results are wrong, so nothing is timed.")
    settings = {"batch": arguments.batch, "size": arguments.size, "impl": arguments.impl, "checks": checks}
    data = report("gpu", settings, rows)
    text = f"{describe(data['environment'])}\n\n{table(checks, rows, arguments.batch, arguments.size)}"
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(data, indent=1) + "\n")
    if arguments.docs is not None:
        insert(arguments.docs, "gpu", text)
    return 0 if all(c["passed"] for c in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
