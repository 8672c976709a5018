"""Many crops of one picture: where they lie, what they hold, and the gradient that meets in the picture."""

import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.autograd import gradcheck, gradgradcheck

from pellucid import Key, Pipeline, RandomResizedCrop
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.views import cutouts
from tests.refusals import refused

F64 = torch.float64


def picture(*shape, seed=0):
    return torch.rand(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(40, 40), (30, 47)])
def test_each_is_a_square_that_lies_in_the_picture(shape):
    """A picture that holds x and y says where each square lies: enlarged ramps stay ramps."""
    y, x = torch.meshgrid(*(torch.arange(length, dtype=F64) for length in shape), indexing="ij")
    inner = cutouts(torch.stack((x, y)), 200, 64, scale=(0.2, 1.0), key=Key(0, 1))[..., 24:40, 24:40]
    step_x, step_y = inner[:, 0].diff(dim=2), inner[:, 1].diff(dim=1)
    assert torch.allclose(step_x, step_x[:, :1, :1].expand_as(step_x), atol=1e-9)
    assert torch.allclose(step_x[:, :15, :15], step_y[:, :15, :15], atol=1e-9)  # squares
    side = 64 * step_x[:, 0, 0]
    share = (side / min(shape)) ** 2
    assert 0.2 <= float(share.min()) < 0.25
    assert 0.95 < float(share.max()) <= 1 + 1e-9
    centre = inner.mean((2, 3)) + 0.5  # in edge coordinates
    low, high = centre - side[:, None] / 2, centre + side[:, None] / 2
    assert float(low.min()) > -1e-9
    assert (high < torch.tensor(shape[::-1], dtype=F64) + 1e-9).all()
    assert (centre.std(0) > 1).all()


def test_the_whole_picture_is_what_torch_resizes():
    image = picture(1, 3, 24, 24)
    expected = F.interpolate(image, (8, 8), mode="bilinear", antialias=True)
    assert torch.allclose(cutouts(image, 3, 8, scale=(1.0, 1.0)), expected.expand(3, -1, -1, -1), atol=1e-12)


def test_it_is_the_draw_of_a_pipeline_and_of_nothing_else():
    image = picture(3, 20, 20)
    expected = Pipeline([RandomResizedCrop(6, scale=(0.1, 1.0), ratio=(1.0, 1.0))])(image.expand(5, -1, -1, -1), key=Key(3, 4))
    before, version = torch.random.get_rng_state(), image._version
    assert torch.equal(cutouts(image, 5, 6, key=Key(3, 4)), expected)
    assert torch.equal(cutouts(image, 2, 6, key=Key(3, 4)), expected[:2])
    assert not torch.equal(cutouts(image, 5, 6), cutouts(image, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert image._version == version


def test_several_pictures_one_after_another():
    both = picture(2, 1, 20, 20)
    seen = cutouts(both, 3, 5, key=Key(0, 0))
    assert seen.shape == (6, 1, 5, 5)
    assert torch.equal(seen[:3], cutouts(both[0], 3, 5, key=Key(0, 0)))
    squares = cutouts(both[1], 6, 5, key=Key(0, 0))
    assert torch.equal(seen[3:], squares[3:])


def test_gradients_of_both_orders_meet_in_the_picture():
    image = picture(1, 6, 7).requires_grad_()

    def cut(image):
        return cutouts(image, 3, 4, key=Key(5, 6))

    assert gradcheck(cut, image, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda image: cut(image).square(), image)
    (together,) = torch.autograd.grad(cut(image).square().sum(), image)
    apart = sum(torch.autograd.grad(cut(image)[i].square().sum(), image)[0] for i in range(3))
    assert torch.allclose(together, apart, atol=1e-12)


def test_a_picture_is_found_again_by_descent():
    """What cutouts are for: the encoder sees squares, the picture learns."""
    target, image = picture(1, 16, 16), torch.full((1, 16, 16), 0.5, dtype=F64, requires_grad=True)
    optimizer = torch.optim.Adam([image], 0.05)
    for step in range(60):
        key = Key(0, step)
        loss = (cutouts(image, 8, 8, scale=(0.1, 0.3), key=key) - cutouts(target, 8, 8, scale=(0.1, 0.3), key=key)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float((image.detach() - target).square().mean()) < 0.1 * float((target - 0.5).square().mean())


def test_bytes_stay_bytes():
    image = (picture(3, 12, 12) * 255).to(torch.uint8)
    place = io.BytesIO()
    Image.fromarray(image.movedim(0, -1).numpy()).save(place, "PNG")
    read = torch.from_numpy(np.array(Image.open(place))).movedim(-1, 0)
    assert torch.equal(cutouts(read, 2, 4, key=Key(0, 0)), cutouts(image, 2, 4, key=Key(0, 0)))
    assert cutouts(image, 2, 4).dtype == torch.uint8


def test_bad_input_is_named():
    refused(InvalidArgument, "image", cutouts, torch.zeros(4, 4), 2, 2)
    refused(InvalidArgument, "image", cutouts, torch.zeros(0, 3, 4, 4), 2, 2)
    refused(InvalidType, "image", cutouts, [torch.zeros(3, 4, 4)], 2, 2)
    refused(InvalidArgument, "n: expected", cutouts, torch.zeros(3, 4, 4), 0, 2)
    refused(InvalidType, "n: expected", cutouts, torch.zeros(3, 4, 4), 2.5, 2)
    refused(InvalidArgument, "size: expected", cutouts, torch.zeros(3, 4, 4), 2, 0)
    refused(InvalidType, "size: expected", cutouts, torch.zeros(3, 4, 4), 2, (2, 2))


def test_a_bad_scale_is_named():
    for scale in ((0.5, 1.5), (0.0, 1.0), (0.9, 0.1), (0.5,)):
        refused(InvalidArgument, "scale: expected two fractions", cutouts, torch.zeros(3, 4, 4), 2, 2, scale=scale)
