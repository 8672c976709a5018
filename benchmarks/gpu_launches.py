"""What a call on CUDA starts and does on the host, without a GPU: by PyTorch's meta device, which takes an accelerator's paths.

    python benchmarks/gpu_launches.py                       # the table
    python benchmarks/gpu_launches.py --docs docs/cuda.md   # also writes it there

A call is recorded after three others, which make what is made once. Our kernels are the launches of Triton's, counted where they
are launched; torch's are its operations that write memory, each taken for one launch; the host's are those that only make views or
memory. A copy from the host is an operation on its tensors, a read one that waits for a value. A model, not a measurement: a sort,
say, is more than one launch, and a sum of many numbers may be.
"""

import argparse
from collections import Counter
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest import mock

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import Pipeline
from pellucid.core import compilers, constants
from pellucid.kernels import dispatch, resize
from pellucid.kernels.warp.triton import op
from pellucid.random import key as keys
from pellucid_bench.report import insert
from pellucid_bench.settings import MEAN, STD

META = torch.device("meta")
READS = ("_local_scalar_dense", "nonzero", "masked_select", "_linalg_check_errors", "is_nonzero", "equal.default", "unique")
MEMORY = ("aten.empty", "aten.new_empty", "aten.promote_types", "aten._unsafe_view", "aten.lift_fresh")
KINDS = {"ours": "our kernels", "torch": "torch's", "host": "views and memory", "copies": "copies from the host", "reads": "reads"}


class Kernel:
    """Stands for a kernel of Triton's: counts its launches."""

    def __init__(self, name, counted):
        self.name, self.counted = name, counted

    def __getitem__(self, grid):
        del grid
        return lambda *_, **__: self.counted("ours", self.name)


class Launches(TorchDispatchMode):
    """Inside, what a call does is counted: ``seen`` has (kind, name) of every operation."""

    def __init__(self, operators):
        super().__init__()
        self.seen, self.operators = Counter(), operators

    def count(self, kind, name):
        self.seen[kind, name] += 1

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, call = str(function), self.operators.get(function)
        if call is not None:  # what it does is seen, too
            with self:
                return call(*args, **(kwargs or {}))
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        result = function(*args, **(kwargs or {}))
        made = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        still = function.is_view or name.startswith(MEMORY) or not any(x.numel() for x in made)
        kind = "host" if still else "torch"
        kind = "copies" if any(x.device != META for x in given + made) else kind
        self.count("reads" if any(read in name for read in READS) else kind, name)
        return result


def accelerator(stack, launches):
    """The meta device as one that Triton's kernels run on; being watched changes nothing."""
    from pellucid.kernels.warp.triton import launch

    names = (
        *("forward", "copy_labels", "gradients", "gather", "add_folded", "add_weighted", "add_tabled", "bounds", "spread"),
        "collect",
    )
    runs_on = {"cpu": "cpu", "triton": "meta"}

    def words(seed, step, index, slots, keep=None):
        del seed, step, keep
        launches.count("ours", "_draw")
        return index.new_empty((index.shape[0], 4 * slots.shape[0]))

    for patch in (
        *(mock.patch.object(launch, name, Kernel(name, launches.count)) for name in names),
        mock.patch.object(dispatch, "_runs_on", lambda name, device: name == "reference" or runs_on[name] == device),
        mock.patch.object(compilers, "_triton", True),
        mock.patch.object(constants, "_plain", return_value=True),
        mock.patch.object(torch, "autocast", return_value=nullcontext()),  # which knows no meta device
        *(mock.patch.object(module, "draw_words", words) for module in (keys, pellucid.engine.drawing)),
    ):
        stack.enter_context(patch)


def operators():
    """Python's side of the operators, which a call on CUDA reaches."""
    return {
        op.forward: op._warp,
        op.backward: op._warp_backward,
        op.labels: op._labels,
        resize.triton.forward: resize.triton._resize,
        resize.triton.backward: resize.triton._resize_backward,
    }


def counted(make):
    """(kind, name) -> how often, of one call of what ``make`` returns."""
    launches = Launches(operators())
    with ExitStack() as stack:
        accelerator(stack, launches)
        call = make()
        for _ in range(3):
            call()
        launches.seen.clear()
        with launches:
            call()
    return launches.seen


def forward(transforms, dtype=torch.float32, out=None):
    """A pipeline's call."""

    def make():
        pipeline = Pipeline(transforms, dtype=out).to(META)
        images = torch.empty(8, 32, 32, 3, dtype=dtype, device=META).permute(0, 3, 1, 2)
        images = images.contiguous() if dtype == torch.float32 else images
        return lambda: pipeline(images)

    return make


def both(transforms, parameters=False):
    """The same and back, to the images and, where asked, to the parameters."""

    def make():
        pipeline = Pipeline(transforms).to(META)
        images = torch.empty(8, 3, 32, 32, device=META, requires_grad=True)
        upstream = torch.empty_like(pipeline(images))
        wanted = (images, *(pipeline.parameters() if parameters else ()))
        return lambda: torch.autograd.grad(pipeline(images), wanted, upstream, allow_unused=True)

    return make


def table():
    """{what: {kind: how many}} of calls with 8 x 3 x 32 x 32 images."""
    affine = pellucid.RandomAffine(degrees=15, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5)
    learned = pellucid.RandomAffine(degrees=pellucid.Uniform(pellucid.Learnable(-15.0), pellucid.Learnable(15.0)))
    after = (
        pellucid.RandomHorizontalFlip(),
        pellucid.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05),
        pellucid.Normalize(mean=MEAN, std=STD),
    )
    crop = pellucid.RandomResizedCrop((24, 24))
    calls = {
        "affine": forward([affine]),
        "affine, forward + backward": both([affine]),
        "flagship": forward([affine, *after]),
        "flagship, uint8 HWC to bfloat16": forward([affine, *after], dtype=torch.uint8, out=torch.bfloat16),
        "flagship, forward + backward": both([affine, *after]),
        "flagship with learned degrees, and back to image and parameters": both([learned, *after], parameters=True),
        "crop to 24 x 24, flip, jitter, normalise": forward([crop, *after]),
        "the same, forward + backward": both([crop, *after]),
    }
    return {name: sums(counted(make)) for name, make in calls.items()}


def sums(seen):
    return {kind: sum(n for (one, _), n in seen.items() if one == kind) for kind in KINDS}


def markdown(rows):
    lines = [f"| 8 x 3 x 32 x 32 | {' | '.join(KINDS.values())} |", "|---" * (1 + len(KINDS)) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(str(row[kind]) for kind in KINDS)} |" for name, row in rows.items()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its launches markers")
    arguments = parser.parse_args()
    text = markdown(table())
    print(text)
    if arguments.docs is not None:
        insert(arguments.docs, "launches", text)


if __name__ == "__main__":
    main()
