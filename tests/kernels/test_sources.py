"""Pictures of several sizes through one call of a compiled pass: the bits of each picture alone, wherever and however it lies."""

import pytest
import torch

import pellucid.kernels.resize.cpu as by_resize
import pellucid.kernels.warp.cpu as by_warp
from pellucid.kernels.several import Pictures
from pellucid.kernels.warp import pack
from pellucid.kernels.warp.operators import arguments

SIZES = ((19, 30), (40, 17), (19, 30), (64, 72), (9, 250))
KINDS = (torch.float32, torch.uint8, torch.float16)


def pictures(dtype, channels=3, count=5):
    """As many, in memory of their own: planar, interleaved, of every second column."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for k, (height, width) in enumerate(SIZES[:count]):
        whole = torch.rand((height, 2 * width, channels), generator=generator)
        whole = (whole * 255).to(dtype) if dtype == torch.uint8 else whole.to(dtype)
        image = whole.permute(2, 0, 1)
        found.append(
            image[None, :, :, ::2] if k == 3 else image[None, :, :, :width] if k % 2 else image[None, :, :, :width].contiguous()
        )
    return found


def maps(kind, count=5):
    angle = torch.linspace(-0.5, 0.6, count)
    rows = [
        torch.stack((1.3 * angle.cos(), -angle.sin(), 4 * angle), 1),
        torch.stack((angle.sin(), 1.1 * angle.cos(), -3 * angle), 1),
    ]
    affine = torch.stack(rows, 1)
    if kind == "whole":
        affine = torch.tensor([[-1.0, 0.0, 15.0], [0.0, 1.0, 2.0]]).repeat(count, 1, 1)
        affine[:, :, 2] += torch.arange(count)[:, None]
    return affine


def passes(kind):
    """Arguments of the warp's operators after the picture, of all samples and of each."""
    common = {"size": (24, 21), "fill": torch.rand(5, 3)}
    if kind == "window":
        common["window"] = torch.tensor([[1.0, 2.0, 8.0, 6.0]]) + torch.arange(5.0)[:, None]
    if kind in ("reflection", "wrap"):
        common["padding_mode"] = kind
    if kind == "bicubic":
        common["interpolation"] = "bicubic"
    if kind == "field":
        common["field"] = torch.randn(5, 2, 24, 21, generator=torch.Generator().manual_seed(1)) * 3
    if kind == "table":
        common["footprint"] = (4, 4)
    if kind == "whole":
        del common["fill"]
    made = pack(maps(kind), **common)
    if kind == "table":
        from pellucid.kernels.warp import _footprint

        made = made._replace(table=_footprint(made, (4, 4)))
    return made


def own(part, i):
    return part[i : i + 1] if isinstance(part, torch.Tensor) and len(part) > 1 else part


@pytest.mark.parametrize("kind", ["plain", "window", "reflection", "wrap", "bicubic", "field", "table", "whole"])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_a_warp_of_several_sizes_is_each_alone(kind, dtype):
    images, resample = pictures(dtype), passes(kind)
    tensors = resample.mapping, resample.window, resample.params, resample.field, resample.links, resample.table
    resample = resample.returning(dtype)
    rest = arguments(images[0], resample.mapping, resample.recipe)
    apart = Pictures(tuple(images), tuple((i,) for i in range(5)))
    joined = Pictures((torch.cat((images[0], images[2])), images[1], *images[3:]), ((0, 2), (1,), (3,), (4,)))
    wanted = torch.cat([by_warp.direct(image, *(own(t, i) for t in tensors), *rest) for i, image in enumerate(images)])
    assert len(set(wanted.flatten(1).double().std(1).tolist())) == 5
    for several in (apart, joined):
        assert torch.equal(by_warp.direct(several, *tensors, *rest), wanted)
    if dtype == torch.uint8:
        return
    grad = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    for needs in ([True] + [tensor is not None for tensor in tensors], [True] + [False] * 6):
        singles = [
            by_warp.back(grad[i : i + 1], image, *(own(t, i) for t in tensors), *rest, needs) for i, image in enumerate(images)
        ]
        for several, order in ((apart, (0, 1, 2, 3, 4)), (joined, (0, 2, 1, 3, 4))):
            found = by_warp.back(grad, several, *tensors, *rest, needs)
            assert torch.equal(found[0], torch.cat([singles[i][0].flatten() for i in order]))
            for k, need in enumerate(needs[1:], 1):
                if need:
                    assert torch.equal(found[k], torch.cat([single[k] for single in singles]))


@pytest.mark.parametrize("dtype", KINDS[:2], ids=str)
def test_a_resize_of_several_sizes_is_each_alone(dtype):
    images = pictures(dtype)
    scales = torch.tensor([[[1.3, 0.0, 0.2], [0.0, 0.8, 0.1]]]).repeat(5, 1, 1) * torch.linspace(0.5, 3, 5)[:, None, None]
    window = torch.tensor([[0.0, 0.0, 15.0, 8.0]]) + torch.arange(5.0)[:, None]
    resample = pack(scales, size=(12, 14), window=window, fill=torch.rand(5, 3), padding_mode="zeros").returning(torch.float32)
    tensors, rest = (resample.mapping, resample.window, resample.params), arguments(images[0], resample.mapping, resample.recipe)
    apart = Pictures(tuple(images), tuple((i,) for i in range(5)))
    wanted = torch.cat([by_resize.direct(image, *(own(t, i) for t in tensors), *rest) for i, image in enumerate(images)])
    assert torch.equal(by_resize.direct(apart, *tensors, *rest), wanted)
    if dtype == torch.uint8:
        return
    grad, needs = torch.randn(wanted.shape), [True] * 4
    singles = [
        by_resize.back(grad[i : i + 1], image, *(own(t, i) for t in tensors), *rest, needs) for i, image in enumerate(images)
    ]
    found = by_resize.back(grad, apart, *tensors, *rest, needs)
    assert torch.equal(found[0], torch.cat([single[0].flatten() for single in singles]))
    assert all(torch.equal(found[k], torch.cat([single[k] for single in singles])) for k in (1, 2, 3))
