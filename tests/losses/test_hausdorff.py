"""All three Hausdorff losses: equal to plain loops, and finite when degenerate."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.losses import hausdorff_distance_loss, hausdorff_erosion_loss, hausdorff_level_loss
from tests.refusals import refused

LOSSES = {"erosion": hausdorff_erosion_loss, "distance": hausdorff_distance_loss, "level": hausdorff_level_loss}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
SHAPES = {"2-D": (2, 3, 9, 11), "3-D": (2, 1, 6, 5, 7)}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def example(shape, dtype=torch.float64):
    target = torch.zeros(shape, dtype=dtype)
    target[..., 2:5, 1:4] = 1
    return torch.rand(shape, dtype=dtype), target


def erosion_oracle(prediction, target, alpha=2.0, iterations=10):
    """The published formula with scipy's convolution, one image at a time."""
    rank = prediction.ndim - 2
    kernel = ndimage.generate_binary_structure(rank, 1) / (2 * rank + 1)
    out = np.zeros(prediction.shape[:2])
    for b, c in np.ndindex(*out.shape):
        error = (prediction[b, c] - target[b, c]) ** 2
        for k in range(1, iterations + 1):
            error = np.maximum(ndimage.convolve(error, kernel, mode="constant") - 0.5, 0)
            if error.max() > error.min():
                error = (error - error.min()) / (error.max() - error.min())
            out[b, c] += error.mean() * k**alpha
    return out


def boundary_distance(mask, spacing):
    if mask.all() or not mask.any():
        return np.zeros(mask.shape)
    return ndimage.distance_transform_edt(mask, sampling=spacing) + ndimage.distance_transform_edt(~mask, sampling=spacing)


def distance_oracle(prediction, target, alpha=2.0, spacing=None):
    out = np.zeros(prediction.shape[:2])
    for b, c in np.ndindex(*out.shape):
        q, p = prediction[b, c], target[b, c]
        weight = boundary_distance(q > 0.5, spacing) ** alpha + boundary_distance(p > 0.5, spacing) ** alpha
        out[b, c] = ((q - p) ** 2 * weight).mean()
    return out


def level_oracle(prediction, target, alpha=2.0, levels=8):
    out = np.zeros(prediction.shape[:2])
    for b, c in np.ndindex(*out.shape):
        q, inside = prediction[b, c], target[b, c] > 0.5
        total = (q * (ndimage.distance_transform_edt(~inside) ** alpha if inside.any() else 1.0)).sum()
        depth = ndimage.distance_transform_edt(np.pad(inside, 1))[(slice(1, -1),) * q.ndim]
        for i in range(levels):
            reached = q >= (i + 0.5) / levels
            away = np.maximum(ndimage.distance_transform_edt(~reached), 1) if reached.any() else depth
            lacking = 1 - np.clip(q * levels - i, 0, 1)
            total += (lacking * away**alpha)[inside].sum() / levels
        out[b, c] = total / q.size
    return out


ORACLES = {"erosion": erosion_oracle, "distance": distance_oracle, "level": level_oracle}


@every_shape
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_equals_a_plain_loop(name, shape, alpha):
    prediction, target = example(shape)
    prediction[0, 0] = target[0, 0].flip(-1) * 0.9 + 0.05  # one crisp map among the noise,
    prediction[1] *= 0.6  # and slices that no pixel reaches
    got = LOSSES[name](prediction, target, alpha=alpha, reduction="none")
    want = ORACLES[name](prediction.numpy(), target.numpy(), alpha=alpha)
    assert want.max() > 0
    assert got.numpy() == pytest.approx(want, rel=1e-12, abs=1e-14)
    assert float(LOSSES[name](prediction, target, alpha=alpha)) == pytest.approx(want.mean(), rel=1e-12)
    assert float(LOSSES[name](prediction, target, alpha=alpha, reduction="sum")) == pytest.approx(want.sum(), rel=1e-12)


def test_spacing_scales_the_distances():
    prediction, target = example(SHAPES["3-D"])
    want = distance_oracle(prediction.numpy(), target.numpy(), spacing=(3.0, 1.0, 0.5))
    got = hausdorff_distance_loss(prediction, target, spacing=(3.0, 1.0, 0.5), reduction="none")
    assert got.numpy() == pytest.approx(want, rel=1e-12)
    assert hausdorff_level_loss(prediction, target, spacing=(2.0, 2.0, 2.0)) == pytest.approx(
        4 * float(hausdorff_level_loss(prediction, target)), rel=0.02
    )


@every_shape
def test_erosion_equals_kornia_per_class(shape):
    losses = pytest.importorskip("kornia.losses")
    peer = losses.HausdorffERLoss() if len(shape) == 4 else losses.HausdorffERLoss3D()
    prediction = torch.rand(shape[0], 3, *shape[2:]).softmax(1)
    labels = torch.randint(0, 3, (shape[0], 1, *shape[2:]))
    masks = torch.nn.functional.one_hot(labels[:, 0], 3).movedim(-1, 1)
    assert float(hausdorff_erosion_loss(prediction, masks.float())) == pytest.approx(float(peer(prediction, labels)), rel=1e-4)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("p", [0.0, 1.0], ids=["empty target", "full target"])
@pytest.mark.parametrize("q", [0.0, 0.5, 1.0], ids=["nothing", "undecided", "everything"])
def test_degenerate_maps_are_finite(loss, dtype, p, q):
    prediction = torch.full((1, 1, 40, 40), q, dtype=dtype, requires_grad=True)
    value = loss(prediction, torch.full_like(prediction.detach(), p))
    value.backward()
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert prediction.grad.isfinite().all()
    if p == q:
        assert value == 0


@every_loss
def test_targets_may_be_bool(loss):
    prediction, target = example(SHAPES["2-D"])
    assert torch.equal(loss(prediction, target.bool()), loss(prediction, target))


@every_loss
def test_errors_say_what_to_do(loss):
    prediction, target = example(SHAPES["2-D"])
    refused(InvalidArgument, "one_hot", loss, prediction, target[:, :1])
    refused(InvalidArgument, r"\(B, C, H, W\)", loss, prediction[0], target[0])
    refused(InvalidArgument, "reduction", loss, prediction, target, reduction="max")
    refused(InvalidType, "sigmoid", loss, prediction.long(), target)


def test_the_erosion_loss_is_kornias():
    peer = pytest.importorskip("kornia.losses").HausdorffERLoss()
    prediction, labels = torch.rand(8, 1, 32, 32), torch.zeros(8, 1, 32, 32, dtype=torch.int64)
    ours = hausdorff_erosion_loss(prediction, (labels == 0).float())
    assert float(ours) == pytest.approx(float(peer(prediction, labels)), rel=1e-4)
