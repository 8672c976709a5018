"""Labels of volumes by majority, against scipy's linear interpolation of one label at a time."""

import numpy as np
import pytest
import torch
from scipy import ndimage

import pellucid as P
from pellucid.kernels.volume import majority

MAJORITY = {"labelmap": "majority"}


def blobs(size, labels=5, samples=1, seed=0):
    """Labels in patches of some voxels, (B, D, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(samples, labels, *(max(2, n // 2) for n in size), generator=generator)
    return torch.nn.functional.interpolate(coarse, size, mode="trilinear").argmax(1)


def elected(labels, matrix, size, points, mode):
    """Of each voxel the label with the greatest share, and by how much it is the greatest, by scipy; outside is 0."""
    axes = [(np.arange(n * k) + 0.5) / k - 0.5 for n, k in zip(size, points, strict=True)]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    at = np.einsum("ij,jzyx->izyx", matrix[:3, :3], np.stack((x, y, z))) + matrix[:3, 3][:, None, None, None]
    mode = "nearest" if mode == "border" else "grid-constant"
    shares = [
        ndimage.map_coordinates((labels == k).astype(float), at[::-1], order=1, mode=mode, cval=float(k == 0))
        for k in range(labels.max() + 1)
    ]
    d, p, h, q, w, r = (n for pair in zip(size, points, strict=True) for n in pair)
    shares = np.stack(shares).reshape(-1, d, p, h, q, w, r).mean((2, 4, 6))
    first, second = np.sort(shares, 0)[-1:-3:-1]
    return shares.argmax(0), first - second


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize("mode", ["zeros", "border"])
@pytest.mark.parametrize("points", [(1, 1, 1), (2, 1, 3)])
def test_the_greatest_share_is_scipys(impl, mode, points):
    labels, size = blobs((9, 10, 8)), (7, 8, 5)
    matrix = torch.tensor([[0.9, 0.3, -0.1, 0.3], [-0.2, 1.1, 0.2, -1.4], [0.1, -0.3, 1.2, 0.6], [0, 0, 0, 1]], dtype=torch.float64)
    found = majority(labels[:, None], matrix[None, :3], size=size, points=points, border=mode == "border", impl=impl)
    expected, margin = elected(labels[0].numpy(), matrix.numpy(), size, points, mode)
    clear = margin > 1e-9
    assert clear.mean() > 0.9
    assert (found[0, 0].numpy() == expected)[clear].all()
    for dtype in (torch.uint8, torch.int16):
        assert torch.equal(
            majority(labels[:, None].to(dtype), matrix[None, :3], size=size, points=points, impl=impl).long(),
            majority(labels[:, None], matrix[None, :3], size=size, points=points, impl=impl),
        )


def test_both_read_a_window_of_a_field_alike():
    labels = blobs((8, 9, 10), samples=2)[:, None]
    generator = torch.Generator().manual_seed(3)
    maps = (torch.eye(4, dtype=torch.float64) + 0.1 * torch.rand(2, 4, 4, generator=generator, dtype=torch.float64))[:, :3]
    control = 0.8 * torch.rand(2, 3, 5, 5, 4, generator=generator, dtype=torch.float64)
    how = {"size": (4, 5, 3), "window": (torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]]), (8, 9, 10)), "points": (2, 1, 2)}
    ours, reference = (majority(labels, maps, control, impl=impl, **how) for impl in ("cpu", "reference"))
    assert torch.equal(ours, reference)
    whole = majority(labels, maps, control, size=(8, 9, 10), points=(1, 1, 1))
    part = majority(labels[:1], maps[:1] @ _shift(1, 2, 3), control[:1], size=(4, 5, 3), window=(how["window"][0][:1], (8, 9, 10)))
    assert torch.equal(part, whole[:1, :, 3:7, 2:7, 1:4])


def _shift(x, y, z):
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[:3, 3] = torch.tensor([x, y, z])
    return matrix


def test_a_share_of_half_is_kept_where_nearest_is_noise():
    """Boundaries of a turned ball are smoother than the nearest voxel's: nearer to those of a finer volume, turned and shrunk."""

    def ball(n):
        z, y, x = torch.meshgrid(*[(torch.arange(n) + 0.5) / n - 0.5] * 3, indexing="ij")
        return ((x**2 + (1.7 * y) ** 2 + (2.3 * z) ** 2) < 0.16).to(torch.uint8)[None]

    turn = P.RandomAffine3(degrees=((20, 20), (30, 30), (10, 10)))
    fine = P.Pipeline([turn])({"labelmap": ball(96)})["labelmap"]
    truth = torch.nn.functional.avg_pool3d(fine[:, None].float(), 4)[:, 0] > 0.5
    wrong = {}
    for mode in ("nearest", "majority"):
        found = P.Pipeline([turn], interpolation={"labelmap": mode})({"labelmap": ball(24)})["labelmap"]
        wrong[mode] = int((found != truth).sum())
    assert wrong["majority"] < 0.7 * wrong["nearest"], wrong
    small = P.Pipeline([P.Resize3(24)], interpolation=MAJORITY)({"labelmap": fine})["labelmap"]
    assert torch.equal(small.bool(), truth) or (small != truth).sum() < 0.02 * truth.sum()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float32])
def test_pipelines_take_labels_of_any_kind(dtype):
    labels = (blobs((8, 8, 8), samples=2) > 1 if dtype == torch.bool else blobs((8, 8, 8), samples=2)).to(dtype)
    steps = [
        P.RandomAffine3((180, 180), fill=0.5, mask_fill=1),
        P.RandomGaussianNoise(sigma=0.1, clip="none"),
        P.RandomFlip3("x", p=1.0),
    ]
    augment = P.Pipeline(steps, seed=0, interpolation=MAJORITY)
    assert P.Pipeline.from_dict(augment.to_dict()).to_dict() == augment.to_dict()
    out, record = augment({"volume": labels[:, None].float(), "labelmap": labels}, return_record=True)
    assert out["labelmap"].dtype == dtype
    assert set(out["labelmap"].flatten().tolist()) <= set(labels.flatten().tolist())
    assert augment({"labelmap": labels[:0]})["labelmap"].shape == (0, 8, 8, 8)
    still = P.Pipeline([P.RandomAffine3()], interpolation=MAJORITY)({"labelmap": labels})["labelmap"]
    assert torch.equal(still, labels)
    assert augment.inverse({"labelmap": out["labelmap"]}, record)["labelmap"].dtype == dtype
    with pytest.raises(P.InvalidArgument, match="majority"):
        P.Pipeline(steps, interpolation={"mask": "majority"})
