"""Volumes above memory: blocks are the call's bits, read little, and have its gradient."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.kernels.volume import block_of, majority, volume
from tests.refusals import refused
from tests.volumes.cases import voxels
from tests.volumes.test_geometry import by_scipy

PIPELINES = {
    "a field and a window": [
        P.RandomFlip3("x"),
        P.RandomAffine3((5, 5, 25), 0.05, scale=(0.9, 1.2)),
        P.RandomElastic3((8, 6, 5), 0.35),
        P.RandomCrop3((12, 14, 15)),
        P.RandomGamma((0.7, 1.3)),
        P.RandomBrightness((0.9, 1.1)),
    ],
    "several passes": [
        P.RandomCrop3((13, 16, 18)),
        P.RandomAffine3(20, fill=0.3),
        P.RandomInvert(p=0.5),
        P.Pad3(2),
        P.RandomAffine3(10, padding_mode="border"),
        P.RandomQuarterTurn3("z", (0, 2)),
    ],
    "sizes": [P.Resize3((10, 24, 9)), P.RandomFlip3("y")],
}


@pytest.mark.parametrize("labels", ["nearest", "majority"])
@pytest.mark.parametrize("name", PIPELINES)
def test_blocks_are_the_bits_of_the_call(name, labels):
    options = {"interpolation": {"labelmap": labels}, "pairs": {"labelmap": [(1, 2)]}}
    augment = P.Pipeline(PIPELINES[name], seed=3, **options)
    batch = {
        "volume": voxels(2, (16, 18, 20))[0],
        "labelmap": torch.randint(0, 5, (16, 18, 20), generator=torch.Generator().manual_seed(0)),
        "points3": torch.rand(4, 3, generator=torch.Generator().manual_seed(1)) * 12,
        "affine": torch.diag(torch.tensor((1.0, 1.0, 2.5, 1.0))),
    }
    for bytes_, step in itertools.product((False, True), range(2)):
        batch["volume"] = (batch["volume"] * 200).clamp(0, 255).byte() if bytes_ else batch["volume"]
        whole = augment(batch, key=P.Key(3, step))
        blocks = augment.blocks(batch, (5, 7, 6), key=P.Key(3, step))
        shown = torch.zeros(blocks.size)
        for place, part in blocks:
            shown[place] += 1
            for key in ("volume", "labelmap"):
                assert part[key].dtype == whole[key].dtype
                assert torch.equal(part[key], whole[key][(..., *place)])
        assert (shown == 1).all()
        assert all(torch.equal(blocks.others[key], whole[key]) for key in ("affine", "points3", "points3_valid"))


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("how", ["trilinear", "nearest", "majority"])
@pytest.mark.parametrize("border", [False, True])
def test_the_kernel_shows_parts_of_the_whole(impl, how, border):
    generator = torch.Generator().manual_seed(5)
    for trial in range(6):
        random = lambda *size: torch.randn(size, generator=generator, dtype=torch.float64)  # noqa: E731
        image, shape, size = random(1, 2, 9, 11, 1 if trial == 5 else 10), (9, 11, 1 if trial == 5 else 10), (7, 12, 9)
        maps = torch.eye(4, dtype=torch.float64)[None, :3] + random(1, 3, 4) * torch.tensor((0.3, 0.3, 0.3, 6.0))
        maps = maps.round() if trial == 0 else maps
        control = 2.0 * random(1, 3, 5, 6, 4) if trial % 2 else None
        window = (torch.tensor([[2.0, 3.0, 1.0]]), (20, 20, 20)) if trial % 3 == 1 else None
        given = {"size": size, "window": window, "border": border, "impl": impl}

        def show(part, block=None):
            if how == "majority":
                return majority((2 * part).round().long(), maps, control, points=(2, 1, 3), block=block, **given)  # noqa: B023
            return volume(part, maps, control, nearest=how == "nearest", block=block, **given)  # noqa: B023

        whole = show(image)
        for first in itertools.product((0, 4), (0, 8), (0, 4)):
            part = tuple(min(each, length - at) for each, length, at in zip((4, 8, 5), size, first, strict=True))
            block = block_of(first, part, shape, maps, control, size=size, window=window)
            read = tuple(slice(at, at + length) for at, length in zip(block.corner, block.held, strict=True))
            found = show(image[(..., *read)], block)
            expected = whole[(..., *(slice(at, at + length) for at, length in zip(first, part, strict=True)))]
            if impl == "cpu":
                assert torch.equal(found, expected)
            elif how == "trilinear":  # sums of BLAS have another order for another size
                assert (found - expected).abs().max() < 1e-12
            else:  # where such sums part two voxels
                assert (found != expected).double().mean() < 0.01


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_gradients_of_blocks_add_up(impl):
    steps = [P.RandomAffine3(20, 0.1), P.RandomElastic3(4, 0.3), P.RandomBrightness((0.8, 1.2))]
    augment, scan = P.Pipeline(steps, seed=1, impl=impl), voxels(1, (9, 8, 10), dtype=torch.float64)[0]
    drawn = augment.draw(scan)
    found = []
    for by_block in (False, True):
        image = scan.clone().requires_grad_()
        params = tuple(
            {name: value.double().requires_grad_() if value.is_floating_point() else value for name, value in each.items()}
            for each in drawn.params
        )
        record = P.Record(drawn.plan, params, drawn.samples, drawn.lead)
        weights = torch.linspace(0.5, 1.5, scan.numel(), dtype=torch.float64).reshape(scan.shape)
        if by_block:
            for place, part in augment.blocks(image, (4, 5, 3), record=record):
                (part**2 * weights[(..., *place)]).sum().backward()
        else:
            (augment.apply(image, record) ** 2 * weights).sum().backward()
        leaves = [image, *(value for each in params for value in each.values())]
        found.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    assert len(found[0]) == len(found[1]) > 4
    for whole, blocks in zip(*found, strict=True):
        assert torch.allclose(whole, blocks, rtol=1e-10, atol=1e-10)


class Read:
    """An array on a disk that says what was read of it."""

    def __init__(self, voxels):
        self._voxels, self.shape, self.dtype, self.largest = voxels, voxels.shape, voxels.dtype, 0

    def __getitem__(self, place):
        part = self._voxels[place]
        self.largest = max(self.largest, part.size)
        return part


def test_arrays_on_a_disk_are_read_where_they_are_shown(tmp_path):
    scan = (1000 * np.random.default_rng(0).random((1, 24, 20, 28))).astype(">i2")
    np.save(tmp_path / "scan.npy", scan)
    source = Read(np.load(tmp_path / "scan.npy", mmap_mode="r"))
    turn = P.Pipeline([P.RandomAffine3(10, scale=(0.9, 1.1))], seed=0)
    blocks = turn.blocks({"volume": source}, 6)
    expected = by_scipy(scan[0].astype(float), blocks.record.src_from_dst[0].numpy(), (24, 20, 28))
    for place, part in blocks:
        assert part["volume"].dtype == torch.float32
        assert np.abs(part["volume"][0].numpy() - expected[place]).max() < 1e-6 * 1000
    assert 0 < source.largest < 14**3 < scan.size / 4


_PEAK = """
import resource, sys
import numpy as np, torch
import pellucid as P

class File:
    shape, dtype = (1, 256, 256, 256), np.dtype(np.float32)
    def __getitem__(self, place):
        return np.array(np.memmap(sys.argv[1], np.float32, "r", shape=self.shape)[place])

def peak(source, block):
    for place, part in augment.blocks(source, block, key=P.Key(0)):
        np.memmap(sys.argv[2], np.float32, "r+", shape=File.shape)[(..., *place)] = part.numpy()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

augment = P.Pipeline([P.RandomAffine3(20), P.RandomElastic3(32, 0.3), P.RandomGamma((0.8, 1.2))])
before = peak(torch.rand(1, 32, 32, 32), 16)
print(peak(File(), 64) - before, (np.memmap(sys.argv[2], np.float32, "r") != 0).mean())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count memory in other units")
def test_memory_is_that_of_a_block(tmp_path):
    np.random.default_rng(0).random(1 << 24, dtype=np.float32).tofile(tmp_path / "in")
    np.zeros(1 << 24, np.float32).tofile(tmp_path / "out")
    command = [sys.executable, "-c", _PEAK, str(tmp_path / "in"), str(tmp_path / "out")]
    more, shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(shown) > 0.5
    assert int(more) < 256**3 * 4 / 2  # half of the volume; all of it, in and out, would be twice that


@pytest.mark.parametrize(
    "step",
    [
        P.RandomContrast((0.5, 1.5)),
        P.RandomGaussianBlur(3, (1, 2)),
        P.RandomGaussianNoise(0.1),
        P.RandomEqualize(),
        P.RandomGhosting(),
        P.RandomCrop3((4, 4, 4), foreground=0.5),
    ],
)
def test_what_needs_all_of_a_volume_is_refused_by_name(step):
    batch = {"volume": torch.rand(1, 8, 8, 8), "labelmap": torch.ones(8, 8, 8)}
    augment = P.Pipeline([step])
    before = augment.step
    refused(P.InvalidArgument, f"{type(step).__name__}.* for blocks", augment.blocks, batch, 4)
    if not isinstance(step, P.RandomCrop3):
        assert [part["labelmap"].shape for _, part in augment.blocks({"labelmap": batch["labelmap"]}, 8)] == [(8, 8, 8)]
    assert augment.step >= before


def test_arguments_of_blocks():
    augment, scan = P.Pipeline([P.RandomFlip3("x")]), torch.rand(1, 4, 4, 4)
    for batch, size, word in (
        (scan[None], 2, "one volume"),
        (scan, (2, 2), "depth, height"),
        (scan, 0, "size"),
        ([scan], 2, "a list"),
    ):
        refused((P.InvalidArgument, P.InvalidType), word, augment.blocks, batch, size)
    refused(P.InvalidArgument, "a volume", P.Pipeline([P.RandomHorizontalFlip()]).blocks, torch.rand(1, 4, 4), 2)
    record = augment.draw(scan)
    assert len(augment.blocks(scan, 3, record=record)) == len(augment.blocks(scan, [3, 3, 3], record=record)) == 8
    refused(P.InvalidArgument, r"4, 4, 4|4 x 4 x 4", augment.blocks, torch.rand(1, 5, 4, 4), 3, record=record)
